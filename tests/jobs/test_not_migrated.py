"""Before `migrate`: every call names the command to run, on each database, inside and outside a transaction."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connections, transaction

from steady_queue import actions, disable_recurring_task, queues, schedule_recurring_task
from steady_queue.errors import EnqueueError, StoreBug, StoreError, StoreNotMigrated
from steady_queue.jobs.compat import task_backends
from tests.shop import tasks
from tests.support.databases.aliases import pointed_at
from tests.support.databases.tables import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.conftest import PutAll
    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract

TASKS = pytest.mark.parametrize("task", [tasks.anything, tasks.charge], ids=["plain", "limited"])
ID = str(uuid4())


@pytest.fixture
def queue(unmigrated: str) -> Iterator[str]:
    with pointed_at(unmigrated):
        yield unmigrated


def command(alias: str) -> str:
    return f"the database '{alias}' has no tables of Steady Queue; run: python manage.py migrate --database={alias}"


@TASKS
def test_an_enqueue_names_the_command(queue: str, put: Put, task: Any) -> None:
    with pytest.raises(EnqueueError) as caught:
        put(task, "ada")
    assert str(caught.value) == f"task {task.module_path} was not stored: {command(queue)}"
    assert caught.value.stored == "no"
    assert isinstance(caught.value.__cause__, StoreNotMigrated)


@TASKS
def test_an_enqueue_inside_a_transaction_names_the_command(queue: str, task: Any) -> None:
    with transaction.atomic(using=queue):
        with pytest.raises(EnqueueError) as caught:
            task.enqueue("ada")
        transaction.set_rollback(True, using=queue)
    assert command(queue) in str(caught.value)


def test_an_enqueue_under_manual_transactions_names_the_command(queue: str) -> None:
    transaction.set_autocommit(False, using=queue)
    try:
        with pytest.raises(EnqueueError) as caught:
            tasks.anything.enqueue("ada")
    finally:
        transaction.rollback(using=queue)
        transaction.set_autocommit(True, using=queue)
    assert command(queue) in str(caught.value)


def test_a_deferred_enqueue_names_the_command_at_the_commit(queue: str) -> None:
    with pytest.raises(EnqueueError) as caught, transaction.atomic(using="default"):
        tasks.anything.enqueue("ada")
    assert command(queue) in str(caught.value)


def test_a_bulk_names_the_command(queue: str, put_all: PutAll) -> None:
    with pytest.raises(EnqueueError) as caught:
        put_all([tasks.add.bind(1), tasks.add.bind(2)])
    assert str(caught.value) == f"2 tasks were not stored: {command(queue)}"


SYNC_CALLS: list[Callable[[], object]] = [
    lambda: task_backends["default"].get_result(ID),
    lambda: queues.Queue("default").size,
    lambda: queues.Queue("default").pause(),
    lambda: queues.Queue.all(),
    lambda: actions.retry(ID),
    lambda: actions.discard(ID),
    lambda: actions.retry_many([ID]),
    lambda: schedule_recurring_task(tasks.send_mail, key="k", schedule="0 12 * * *", args=["ada"]),
    lambda: disable_recurring_task("k"),
]
ASYNC_CALLS: list[Callable[[], Any]] = [
    lambda: task_backends["default"].aget_result(ID),
    lambda: queues.Queue("default").asize(),
    lambda: queues.Queue.aall(),
    lambda: actions.aretry(ID),
]


@pytest.mark.parametrize("call", SYNC_CALLS)
def test_other_calls_name_the_command(queue: str, call: Callable[[], object]) -> None:
    with pytest.raises(StoreNotMigrated) as caught:
        call()
    assert str(caught.value) == command(queue)
    assert isinstance(caught.value, StoreBug)


@pytest.mark.parametrize("call", ASYNC_CALLS)
def test_other_async_calls_name_the_command(queue: str, call: Callable[[], Any]) -> None:
    with pytest.raises(StoreNotMigrated) as caught:
        asyncio.run(call())
    assert str(caught.value) == command(queue)


def test_a_result_that_is_read_inside_a_transaction_names_the_command(queue: str) -> None:
    with transaction.atomic(using=queue):
        with pytest.raises(StoreNotMigrated) as caught:
            task_backends["default"].get_result(ID)
        transaction.set_rollback(True, using=queue)
    assert str(caught.value) == command(queue)


@pytest.mark.only_on("sqlite")
def test_another_error_with_the_same_code_keeps_its_text(database: str) -> None:
    """SQLite has one code for a missing table and for a missing column."""
    query(database, "ALTER TABLE steady_queue_job RENAME COLUMN arguments TO other")
    try:
        with pytest.raises(StoreError, match="arguments") as caught:
            task_backends["default"].get_result(ID)
    finally:
        query(database, "ALTER TABLE steady_queue_job RENAME COLUMN other TO arguments")
        connections[database].close()
    assert not isinstance(caught.value, StoreNotMigrated)
