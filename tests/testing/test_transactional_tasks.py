"""Transactional tasks in `run_pending`: inside the test's transaction, or in one of their own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from tests.shop.models import Customer
from tests.support.databases.aliases import application_in
from tests.support.tasks import transactional
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.testing.conftest import Run


@pytest.fixture(autouse=True)
def application_in_queue_database(database: str) -> Iterator[None]:
    with application_in(database):
        task_record.gate.set()
        yield
        task_record.clear()


@pytest.fixture(params=["in a transaction", "in none"])
def around(request: pytest.FixtureRequest, database: str) -> AbstractContextManager[object]:
    """What is around the test: the transaction of a TestCase, or nothing."""
    return transaction.atomic(using=database) if request.param == "in a transaction" else nullcontext()


def names(alias: str) -> list[str]:
    return list(Customer.objects.using(alias).order_by("pk").values_list("name", flat=True))


def test_transactional_tasks_finish(database: str, run: Run, around: AbstractContextManager[object]) -> None:
    with around:
        transactional.writes.enqueue("Ada")
        transactional.does_nothing.enqueue()
        transactional.writes_alone.enqueue("Alan")
        transactional.writes_alone.enqueue("Grace")
        assert [result.return_value for result in run()] == ["Ada", "nothing", "Alan", "Grace"]
        assert names(database) == ["Ada", "Alan", "Grace"]


def test_blocks_complete_tasks(database: str, run: Run, around: AbstractContextManager[object]) -> None:
    with around:
        transactional.completes.enqueue("Ada", "raises")
        transactional.completes_async.enqueue("Alan")
        assert [result.return_value for result in run()] == ["result of Ada", "result of Alan"]
        assert names(database) == ["Ada", "before Alan", "Alan"]


def test_an_error_rolls_back_what_the_task_wrote(
    database: str, run: Run, around: AbstractContextManager[object]
) -> None:
    with around:
        Customer.objects.using(database).create(name="of the test")
        transactional.writes_and_raises.enqueue("Ada")
        transactional.ends_transaction.enqueue("COMMIT")
        transactional.ends_transaction.enqueue("set_rollback")
        failed = run()
        assert [result.errors[0].exception_class_path.rpartition(".")[2] for result in failed] == [
            "ValueError",
            "TransactionEndedByTask",
            "TransactionEndedByTask",
        ]
        assert names(database) == ["of the test"]
        transactional.writes.enqueue("Ada")
        run()
        assert names(database) == ["of the test", "Ada"]
