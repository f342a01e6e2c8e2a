"""Transactions of the caller when the queue is in another database."""

from __future__ import annotations

import pytest
from django.db import connections, transaction
from django.test import override_settings

from tests.db.helpers import OURS, Boom, seen_by_others
from tests.shop import tasks
from tests.support.databases.tables import count, counts

pytestmark = pytest.mark.contract


# -- the queue in another database ------------------------------------------------------------------------------------


def test_with_the_queue_in_another_database_a_job_is_stored_after_the_commit(database: str) -> None:
    with transaction.atomic(using="default"):
        result = tasks.add.enqueue(1)
        assert count(database, "job") == 0
    assert tasks.add.get_result(result.id).args == [1]


def test_with_the_queue_in_another_database_a_rollback_stores_nothing(database: str) -> None:
    with pytest.raises(Boom), transaction.atomic(using="default"):
        tasks.add.enqueue(1)
        raise Boom
    with transaction.atomic(using="default"):
        with pytest.raises(Boom), transaction.atomic(using="default"):
            tasks.add.enqueue(2)
            raise Boom
        kept = tasks.add.enqueue(3)
    assert count(database, "job") == 1
    assert tasks.add.get_result(kept.id).args == [3]


def test_a_limited_job_of_another_database_gets_its_slot_with_the_commit(database: str) -> None:
    with transaction.atomic(using="default"):
        tasks.charge.enqueue("ada")
    assert counts(database) == {"ready": 1}


def test_arguments_are_stored_as_they_were_at_the_call_not_at_the_commit(database: str) -> None:
    items = [1]
    with transaction.atomic(using="default"):
        result = tasks.anything.enqueue(items)
        items.append(2)
    assert tasks.anything.get_result(result.id).args == [[1]]


def test_a_task_that_does_not_wait_for_the_commit_is_stored_now(database: str) -> None:
    with pytest.raises(Boom), transaction.atomic(using="default"):
        tasks.at_once.enqueue()
        tasks.add.using(enqueue_on_commit=False).enqueue(1)
        assert seen_by_others(database) == 2
        tasks.at_once.using(enqueue_on_commit=True).enqueue()
        raise Boom
    assert count(database, "job") == 2


def test_a_task_that_does_not_wait_still_belongs_to_a_transaction_of_its_own_database(database: str) -> None:
    with pytest.raises(Boom), transaction.atomic(using=database):
        tasks.at_once.enqueue()
        assert seen_by_others(database) == 0
        raise Boom
    assert count(database, "job") == 0


def test_the_settings_name_the_database_whose_commit_is_waited_for(database: str) -> None:
    with (
        override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"commit_with": database}}}),
        pytest.raises(Boom),
        transaction.atomic(using="default"),
    ):
        tasks.add.enqueue(1)
        assert seen_by_others(database) == 1
        raise Boom
    assert count(database, "job") == 1


@pytest.mark.needs("postgres", "mariadb")
def test_a_transaction_on_a_database_that_is_not_waited_for_changes_nothing(database: str) -> None:
    other = "postgres" if database == "mariadb" else "mariadb"
    with pytest.raises(Boom), transaction.atomic(using=other):
        tasks.add.enqueue(1)
        assert seen_by_others(database) == 1
        raise Boom
    connections[other].close()
    assert count(database, "job") == 1
