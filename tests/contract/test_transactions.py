"""The seed's "Tasks and transactional integrity", with the queue in another database than the application's."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import transaction

from steady_queue import task
from steady_queue.testing import run_pending
from tests.contract.examples import greet, my_committed_task
from tests.support.databases.aliases import pointed_at
from tests.support.databases.tables import count

pytestmark = pytest.mark.contract


def test_transactions_the_default_is_to_wait_for_the_commit(database: str) -> None:
    """ "By default, the `@task` decorator sets the `enqueue_on_commit` flag to `True`"."""
    assert greet.enqueue_on_commit
    with transaction.atomic():
        greet.enqueue("World")
        assert count(database, "job") == 0
    assert count(database, "job") == 1


def test_transactions_a_task_that_does_not_wait(database: str) -> None:
    """`@task(enqueue_on_commit=False)`."""
    assert not my_committed_task.enqueue_on_commit
    with transaction.atomic():
        my_committed_task.enqueue()
        assert count(database, "job") == 1
        transaction.set_rollback(True)
    assert len(run_pending(raising=True)) == 1


def test_transactions_one_call_that_waits_after_all(database: str) -> None:
    """`my_task.using(enqueue_on_commit=True).enqueue()`."""
    with transaction.atomic():
        my_committed_task.using(enqueue_on_commit=True).enqueue()
        assert count(database, "job") == 0
    assert len(run_pending(raising=True)) == 1
    with transaction.atomic():
        my_committed_task.using(enqueue_on_commit=True).enqueue()
        transaction.set_rollback(True)
    assert run_pending() == []


def test_transactions_in_the_same_database_the_task_goes_with_the_rollback(database: str) -> None:
    """ "ensuring some action in your app is not committed unless your task is also committed and vice versa"."""
    with pointed_at(database):
        with transaction.atomic(using=database):
            greet.enqueue("committed")
        with transaction.atomic(using=database):
            greet.enqueue("rolled back")
            transaction.set_rollback(True, using=database)
        assert [done.args for done in run_pending()] == [["committed"]]


def test_transactions_django_s_own_hook(database: str) -> None:
    """`transaction.on_commit(partial(send_welcome_email.enqueue, user.pk))`, of the page on internals."""
    with transaction.atomic():
        transaction.on_commit(partial(greet.enqueue, "Ada"))
        assert count(database, "job") == 0
    assert [done.args for done in run_pending()] == [["Ada"]]


def test_transactions_our_own_decorator_takes_the_same_option() -> None:
    """The same with `from steady_queue import task`."""
    assert not task(enqueue_on_commit=False)(_nothing).enqueue_on_commit


def _nothing() -> None:
    pass
