"""`task_enqueued` and the framework's log: once for each task, and only when the job exists."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from steady_queue.backend import SteadyQueueBackend
from steady_queue.jobs.compat import FRAMEWORK, TaskResultStatus, task_enqueued
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.enqueue import Put

pytestmark = pytest.mark.contract


@contextmanager
def connected(receiver: Callable[..., Any], sender: type | None = None) -> Iterator[None]:
    task_enqueued.connect(receiver, sender=sender, weak=False)
    try:
        yield
    finally:
        assert task_enqueued.disconnect(receiver, sender=sender)


class Receiver:
    """A receiver that keeps the results it gets."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.senders: list[Any] = []

    def __call__(self, sender: Any, task_result: Any, **kwargs: Any) -> None:
        self.received.append(task_result)
        self.senders.append(sender)

    @property
    def ids(self) -> list[str]:
        return [result.id for result in self.received]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with connected(receiver):
        yield receiver


class Boom(Exception):
    pass


def test_the_signal_is_sent_once_with_the_class_of_the_backend_as_sender(
    database: str, put: Put, receiver: Receiver
) -> None:
    result = put(tasks.add, 1, b=2)
    assert receiver.senders == [SteadyQueueBackend]
    (received,) = receiver.received
    assert (received.id, received.task, received.args, received.kwargs) == (result.id, tasks.add, [1], {"b": 2})
    assert received.status == TaskResultStatus.READY


def test_the_job_can_be_found_when_the_signal_comes(database: str, put: Put) -> None:
    found = []

    def look(task_result: Any, **kwargs: Any) -> None:
        found.append(tasks.add.get_result(task_result.id).id)
        if threading.current_thread() is not threading.main_thread():
            connections.close_all()

    with connected(look):
        result = put(tasks.add, 1)
    assert found == [result.id]


def test_a_receiver_of_another_sender_is_not_called(database: str, put: Put) -> None:
    receiver = Receiver()
    with connected(receiver, sender=Receiver):
        put(tasks.add, 1)
    assert receiver.received == []


def test_an_async_receiver_is_awaited(database: str, put: Put) -> None:
    received = []

    async def receiver(task_result: Any, **kwargs: Any) -> None:
        received.append(task_result.id)

    with connected(receiver):
        result = put(tasks.add, 1)
    assert received == [result.id]


def test_a_receiver_that_raises_does_not_fail_the_enqueue_nor_silence_others(
    database: str, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**kwargs: Any) -> None:
        raise Boom

    async def broken_too(**kwargs: Any) -> None:
        raise Boom

    receiver = Receiver()
    with (
        connected(broken),
        connected(broken_too),
        connected(receiver),
        caplog.at_level(logging.ERROR, "django.dispatch"),
    ):
        result = put(tasks.add, 1)
    assert count(database, "job") == 1
    assert receiver.ids == [result.id]
    assert sum(record.exc_info is not None and record.exc_info[0] is Boom for record in caplog.records) == 2


def test_a_receiver_may_enqueue_another_task(database: str, put: Put) -> None:
    def follow(task_result: Any, **kwargs: Any) -> None:
        if task_result.task.func is tasks.add.func:
            tasks.greet.enqueue("Ada")
            if threading.current_thread() is not threading.main_thread():
                connections.close_all()

    with connected(follow):
        put(tasks.add, 1)
    assert count(database, "job") == 2


# -- transactions -----------------------------------------------------------------------------------------------------


def test_the_signal_waits_for_the_commit(database: str, receiver: Receiver) -> None:
    with transaction.atomic(using=database):
        result = tasks.add.enqueue(1)
        assert receiver.received == []
    assert receiver.ids == [result.id]


def test_no_signal_is_sent_for_a_job_that_was_rolled_back(database: str, receiver: Receiver) -> None:
    with pytest.raises(Boom), transaction.atomic(using=database):
        tasks.add.enqueue(1)
        raise Boom
    with transaction.atomic(using=database):
        kept = tasks.add.enqueue(2)
        with pytest.raises(Boom), transaction.atomic(using=database):
            tasks.add.enqueue(3)
            raise Boom
    assert receiver.ids == [kept.id]


def test_a_receiver_that_raises_after_the_commit_leaves_the_callers_callbacks_alone(database: str) -> None:
    def broken(**kwargs: Any) -> None:
        raise Boom

    called = []
    with connected(broken), transaction.atomic(using=database):
        tasks.add.enqueue(1)
        transaction.on_commit(lambda: called.append(True), using=database)
    assert called == [True]


def test_the_signal_of_a_deferred_enqueue_is_sent_when_the_job_is_stored(database: str, receiver: Receiver) -> None:
    with transaction.atomic(using="default"):
        result = tasks.add.enqueue(1)
        assert receiver.received == []
    assert receiver.ids == [result.id]
    assert count(database, "job") == 1


# -- the log ----------------------------------------------------------------------------------------------------------


def test_an_enqueue_is_logged_at_debug(database: str, put: Put, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, FRAMEWORK):
        result = put(tasks.add, 1)
    (record,) = (record for record in caplog.records if record.name == FRAMEWORK)
    assert record.levelno == logging.DEBUG
    assert record.getMessage() == f"Task id={result.id} path={tasks.add.module_path} enqueued backend=default"


def test_nothing_is_logged_above_debug(database: str, put: Put, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        put(tasks.add, 1)
    assert [record for record in caplog.records if record.name in (FRAMEWORK, "steady_queue")] == []


def test_a_discarded_job_is_logged(database: str, put: Put, caplog: pytest.LogCaptureFixture) -> None:
    put(tasks.refresh, 1)
    with caplog.at_level(logging.INFO, "steady_queue"):
        result = put(tasks.refresh, 1)
    assert [record.getMessage() for record in caplog.records if result.id in record.getMessage()]


def test_a_discarded_job_sends_no_signal(database: str, put: Put, receiver: Receiver) -> None:
    stored = put(tasks.refresh, 1)
    put(tasks.refresh, 1)
    assert receiver.ids == [stored.id]


def test_a_signal_receiver_sees_the_rows_of_the_committed_transaction(database: str) -> None:
    names: list[str] = []

    def look(task_result: Any, **kwargs: Any) -> None:
        assert not transaction.get_connection(database).in_atomic_block
        names.extend(Customer.objects.using(database).values_list("name", flat=True))

    with connected(look), transaction.atomic(using=database):
        Customer.objects.using(database).create(name="Ada")
        tasks.add.enqueue(1)
    assert names == ["Ada"]
