"""Transactions of the caller: a job exists if and only if the transaction around its enqueue commits."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from django.db import IntegrityError, connections, transaction

from steady_queue.errors import EnqueueError
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.operations.promote import lock_id
from steady_queue.store.sql.postgres import LOCK_SPACE
from tests.db.helpers import Boom, seen_by_others
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.tables import count, counts, query, row
from tests.support.threads import WAIT_TIMEOUT_SECONDS, closing, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.contract

ON_SERVERS = pytest.mark.parametrize("queue", ["postgres", "mariadb"], indirect=True)

LOCK_OF_ADA = lock_id(f"{tasks.charge.module_path}/ada")


# -- one database -----------------------------------------------------------------------------------------------------


def test_outside_of_a_transaction_a_job_is_there_at_once(database: str) -> None:
    tasks.add.enqueue(1)
    tasks.charge.enqueue("ada")
    assert seen_by_others(database) == 2
    assert not connections[database].in_atomic_block
    assert connections[database].get_autocommit()


def test_a_job_becomes_visible_with_the_commit_together_with_the_callers_rows(database: str) -> None:
    with transaction.atomic(using=database):
        ada = Customer.objects.using(database).create(name="Ada")
        result = tasks.anything.enqueue(ada)
        assert tasks.anything.get_result(result.id).id == result.id
        assert seen_by_others(database) == 0
    assert seen_by_others(database) == 1
    assert tasks.anything.get_result(result.id).id == result.id


def test_a_job_goes_with_the_rollback_together_with_the_callers_rows(database: str) -> None:
    with pytest.raises(Boom), transaction.atomic(using=database):
        Customer.objects.using(database).create(name="Ada")
        result = tasks.add.enqueue(1)
        tasks.charge.enqueue("ada")
        raise Boom
    assert counts(database) == {}
    assert not Customer.objects.using(database).exists()
    with pytest.raises(TaskResultDoesNotExist):
        tasks.add.get_result(result.id)


def test_the_rollback_of_a_savepoint_takes_only_its_own_jobs(database: str) -> None:
    with transaction.atomic(using=database):
        kept = tasks.add.enqueue(1)
        with pytest.raises(Boom), transaction.atomic(using=database):
            tasks.add.enqueue(2)
            tasks.charge.enqueue("ada")
            raise Boom
        with transaction.atomic(using=database):
            inner = tasks.add.enqueue(3)
    assert [tasks.add.get_result(result.id).args for result in (kept, inner)] == [[1], [3]]
    assert counts(database) == {"ready": 2}


def test_enqueue_works_after_an_error_that_a_savepoint_has_caught(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    with transaction.atomic(using=database):
        with pytest.raises(IntegrityError), transaction.atomic(using=database):
            Customer.objects.using(database).create(pk=ada.pk, name="again")
        tasks.add.enqueue(1)
        tasks.charge.enqueue("ada")
    assert counts(database) == {"ready": 2}


def test_enqueue_in_a_transaction_that_is_broken_already_is_refused(database: str) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    with pytest.raises(EnqueueError) as caught, transaction.atomic(using=database):
        with pytest.raises(IntegrityError):
            Customer.objects.using(database).create(pk=ada.pk, name="again")
        connections[database].needs_rollback = True
        tasks.add.enqueue(1)
    assert caught.value.stored == "no"
    assert count(database, "job") == 0


def test_a_refused_argument_leaves_the_transaction_usable(database: str) -> None:
    with transaction.atomic(using=database):
        with pytest.raises(TypeError):
            tasks.anything.enqueue(object())
        tasks.add.enqueue(1)
    assert counts(database) == {"ready": 1}


# -- limited jobs -----------------------------------------------------------------------------------------------------


def test_a_limited_job_is_blocked_until_the_commit_and_ready_after_it(database: str) -> None:
    with transaction.atomic(using=database):
        tasks.charge.enqueue("ada")
        with transaction.atomic(using=database):
            tasks.charge.enqueue("ada")
        assert counts(database) == {"blocked": 2}
        assert count(database, "semaphore") == 0
    assert counts(database) == {"ready": 1, "blocked": 1}
    assert count(database, "semaphore") == 1


def test_a_job_that_does_not_wait_is_discarded_after_the_commit(database: str) -> None:
    tasks.refresh.enqueue(1)
    with transaction.atomic(using=database):
        result = tasks.refresh.enqueue(1)
        assert tasks.refresh.get_result(result.id).id == result.id
    assert counts(database) == {"ready": 1}
    with pytest.raises(TaskResultDoesNotExist):
        tasks.refresh.get_result(result.id)


@pytest.fixture
def short_lock_timeout(database: str) -> Iterator[str]:
    """The database, with a connection that waits for locks only briefly."""
    connection = connections[database]
    query(
        database,
        {
            "postgresql": "SET lock_timeout = '20ms'",
            "mysql": "SET innodb_lock_wait_timeout = 0",
            "sqlite": "PRAGMA busy_timeout = 20",
        }[connection.vendor],
    )
    yield database
    connection.close()


#: What keeps a promotion of the key of `charge("ada")` waiting, on each database.
KEEPS_ADA: dict[str, tuple[str, list[Any]]] = {
    "postgres": ("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK_SPACE, LOCK_OF_ADA]),
    "mariadb": ("SELECT id FROM steady_queue_lockbucket WHERE id = %s FOR UPDATE", [LOCK_OF_ADA]),
    "sqlite": ("DELETE FROM steady_queue_pause", []),
}


def test_an_error_in_the_promotion_neither_leaves_the_transaction_nor_skips_other_callbacks(
    short_lock_timeout: str, caplog: pytest.LogCaptureFixture
) -> None:
    called = []
    with ExitStack() as stack, caplog.at_level(logging.WARNING, "steady_queue"):
        with transaction.atomic(using=short_lock_timeout):
            transaction.on_commit(
                lambda: stack.enter_context(held(short_lock_timeout, KEEPS_ADA[short_lock_timeout])),
                using=short_lock_timeout,
                robust=False,
            )
            tasks.charge.enqueue("ada")
            transaction.on_commit(lambda: called.append(True), using=short_lock_timeout)
        assert called == [True]
        assert counts(short_lock_timeout) == {"blocked": 1}
    assert [record.getMessage() for record in caplog.records if "maintenance" in record.getMessage()]


def test_the_next_enqueue_promotes_the_jobs_that_stayed_blocked(short_lock_timeout: str) -> None:
    with ExitStack() as stack, transaction.atomic(using=short_lock_timeout):
        transaction.on_commit(
            lambda: stack.enter_context(held(short_lock_timeout, KEEPS_ADA[short_lock_timeout])),
            using=short_lock_timeout,
        )
        left = tasks.charge.enqueue("ada")
    assert counts(short_lock_timeout) == {"blocked": 1}
    tasks.charge.enqueue("ada")
    assert counts(short_lock_timeout) == {"ready": 1, "blocked": 1}
    assert row(short_lock_timeout, "blockedexecution", left.id) is None


@ON_SERVERS
def test_two_open_transactions_with_the_same_key_do_not_wait_for_each_other(queue: str) -> None:
    first_is_open, second_is_done = threading.Event(), threading.Event()

    def first() -> None:
        with transaction.atomic(using=queue):
            tasks.charge.enqueue("ada", amount=1)
            first_is_open.set()
            assert second_is_done.wait(WAIT_TIMEOUT_SECONDS)

    with while_in_thread(first):
        assert first_is_open.wait(WAIT_TIMEOUT_SECONDS)
        try:
            with transaction.atomic(using=queue):
                tasks.charge.enqueue("ada", amount=2)
            tasks.charge.enqueue("ada", amount=3)
            assert counts(queue) == {"ready": 1, "blocked": 1}
        finally:
            second_is_done.set()
    assert counts(queue) == {"ready": 1, "blocked": 2}


@pytest.mark.parametrize("queue", ["sqlite"], indirect=True)
def test_on_sqlite_the_second_of_two_transactions_waits_for_the_first(queue: str) -> None:
    begun = threading.Event()

    def second() -> None:
        begun.set()
        tasks.charge.enqueue("ada", amount=2)

    with ExitStack() as stack, transaction.atomic(using=queue):
        tasks.charge.enqueue("ada", amount=1)
        waiting = stack.enter_context(while_in_thread(second))
        assert begun.wait(WAIT_TIMEOUT_SECONDS)
        assert not waiting.done()
    assert counts(queue) == {"ready": 1, "blocked": 1}


# -- manual transactions ----------------------------------------------------------------------------------------------


@pytest.fixture
def manual(database: str) -> Iterator[str]:
    """The database, with a connection whose transactions the caller begins and ends."""
    connection = connections[database]
    connection.ensure_connection()
    connection.set_autocommit(False)
    yield database
    connection.rollback()
    connection.set_autocommit(True)


def test_under_manual_transactions_jobs_are_stored_by_the_callers_commit(manual: str) -> None:
    tasks.add.enqueue(1)
    tasks.charge.enqueue("ada")
    assert seen_by_others(manual) == 0
    transaction.commit(using=manual)
    assert seen_by_others(manual) == 2
    # No callback runs at this commit: maintenance will allocate the slot.
    assert counts(manual) == {"ready": 1, "blocked": 1}


def test_under_manual_transactions_what_was_to_be_discarded_waits_instead(manual: str) -> None:
    for _ in range(2):
        tasks.refresh.enqueue(1)
    transaction.commit(using=manual)
    assert counts(manual) == {"blocked": 2}


def test_under_manual_transactions_jobs_go_with_the_callers_rollback(manual: str) -> None:
    tasks.charge.enqueue("ada")
    tasks.add.enqueue(1)
    Customer.objects.using(manual).create(name="Ada")
    tasks.add.enqueue(2)
    transaction.rollback(using=manual)
    assert seen_by_others(manual) == 0
    assert not Customer.objects.using(manual).exists()


@ON_SERVERS
def test_a_thread_does_not_join_the_transaction_of_another(queue: str) -> None:
    with transaction.atomic(using=queue):
        with while_in_thread(lambda: tasks.add.enqueue(1)) as other:
            result = other.result(WAIT_TIMEOUT_SECONDS)
        transaction.set_rollback(True, using=queue)
    assert closing(tasks.add.get_result, result.id).args == [1]


@pytest.mark.parametrize("queue", ["postgres"], indirect=True)
def test_after_an_enqueue_that_failed_the_callers_transaction_does_not_pretend_to_commit(queue: str) -> None:
    """PostgreSQL has aborted the transaction: its COMMIT would roll back in silence, and run the callbacks."""
    ran: list[int] = []
    with held(queue, ("LOCK TABLE steady_queue_job IN SHARE MODE", [])), transaction.atomic(using=queue):
        query(queue, "SET LOCAL statement_timeout = '100ms'")
        transaction.on_commit(lambda: ran.append(1), using=queue)
        with pytest.raises(EnqueueError) as caught:
            tasks.add.enqueue(1)
        assert caught.value.stored == "no"
        assert connections[queue].needs_rollback
    assert ran == []
