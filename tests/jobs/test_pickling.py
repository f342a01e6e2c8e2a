"""Tasks and results as pickles and copies: other processes and caches get the same thing back."""

from __future__ import annotations

import copy
import math
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import RetryLater, Snooze, Unique, task
from steady_queue.errors import ArgumentError, EnqueueError, TaskCancelled
from tests.shop import framework_tasks, tasks
from tests.support.store.manual_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = pytest.mark.contract


@task(unique=Unique(key=lambda name: name), max_attempts=2, retry_on=ValueError)
def by_name(name: str) -> None:
    pass


TASKS: list[Any] = [
    tasks.add,
    tasks.greet,
    tasks.charge,
    tasks.export,
    tasks.with_context,
    framework_tasks.multiply,
    framework_tasks.total,
    tasks.send_mail.using(priority=-7, queue_name="reports", backend="anything"),
    tasks.charge.using(run_after=datetime(2040, 1, 1, tzinfo=UTC), enqueue_on_commit=False),
    tasks.add.using(timeout=5, max_attempts=3, expires_after=math.inf, metadata={"a": 1}),
    tasks.add.using(unique=Unique(key="nightly", on_conflict="replace", within=timedelta(hours=1))),
    tasks.add.using(unique=Unique(key=len)),
    by_name,
]
PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
COPIERS = pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        *(lambda value, protocol=protocol: pickle.loads(pickle.dumps(value, protocol)) for protocol in PROTOCOLS),
    ],
    ids=["copy", "deepcopy", *(f"pickle {protocol}" for protocol in PROTOCOLS)],
)


def orphan() -> None:
    pass


#: Not under its function's name: the path leads to the function instead.
renamed = task(orphan)


@COPIERS
@pytest.mark.parametrize("made", TASKS, ids=lambda made: made.name)
def test_a_task_comes_back_equal_with_its_options_and_its_limit(
    made: Task[..., Any], copied: Callable[[Any], Any]
) -> None:
    again = copied(made)
    assert again == made
    assert type(again) is type(made)
    assert again.func is made.func


def test_a_limit_with_a_lambda_for_its_key_survives_pickling() -> None:
    again = pickle.loads(pickle.dumps(tasks.charge))
    assert again.concurrency is tasks.charge.concurrency


def test_a_call_with_a_lambda_for_its_unique_key_cannot_be_pickled() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(tasks.add.using(unique=Unique(key=lambda a: a)))


@pytest.mark.parametrize(
    "path",
    ["tests.shop.missing.task", "tests.shop.tasks.missing", "tests.shop.models.Customer", "nowhere"],
    ids=["no such module", "no such name", "not a task", "not a path"],
)
def test_a_path_that_leads_to_no_task_is_a_value_error(path: str) -> None:
    restore, (_, options) = tasks.add.__reduce__()
    with pytest.raises(ValueError, match=f"{path}.*Task instance"):
        restore(path, options)


def test_a_task_that_its_path_does_not_lead_to_cannot_be_restored() -> None:
    with pytest.raises(ValueError, match="Task instance"):
        pickle.loads(pickle.dumps(renamed))


@COPIERS
def test_an_error_keeps_its_attributes(copied: Callable[[Any], Any]) -> None:
    again = copied(EnqueueError("lost", stored="unknown", result_ids=["a", "b"]))
    assert (str(again), again.stored, again.result_ids) == ("lost", "unknown", ("a", "b"))
    assert type(copied(ArgumentError("args[0]: no"))) is ArgumentError
    cancelled = copied(TaskCancelled("Ada", "not needed"))
    assert (str(cancelled), cancelled.by, cancelled.reason) == ("cancelled by Ada: not needed", "Ada", "not needed")


@COPIERS
@pytest.mark.parametrize(
    "request_",
    [RetryLater("busy", after=5), Snooze("early", after=5), Snooze(until=datetime(2040, 1, 1, tzinfo=UTC))],
    ids=str,
)
def test_a_request_of_a_task_keeps_its_attributes(copied: Callable[[Any], Any], request_: BaseException) -> None:
    again = copied(request_)
    assert (type(again), str(again), vars(again)) == (type(request_), str(request_), vars(request_))


def as_seen(result: TaskResult[Any]) -> dict[str, Any]:
    names = ("task", "id", "status", "args", "kwargs", "backend", "errors", "worker_ids", "_return_value")
    moments = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")
    return {name: getattr(result, name) for name in (*names, *moments)}


@COPIERS
def test_a_result_comes_back_with_all_its_fields(database: str, copied: Callable[[Any], Any]) -> None:
    worker = Worker(database)
    waiting = tasks.anything.using(run_after=timedelta(days=1)).enqueue(1, "two", key=[3.0, None])
    done, failed = tasks.add.enqueue(1, b=2), tasks.fail.enqueue("no")
    worker.finish(worker.claim(), "3")
    worker.fail(worker.claim(), ValueError("no"))
    done.refresh()
    failed.refresh()
    assert done.return_value == 3
    assert failed.errors
    for result in (waiting, done, failed):
        assert as_seen(copied(result)) == as_seen(result)


def test_an_unpickled_result_can_be_refreshed(database: str) -> None:
    worker = Worker(database)
    result = pickle.loads(pickle.dumps(tasks.charge.enqueue("ada", amount=2)))
    worker.finish(worker.claim())
    result.refresh()
    assert result.is_finished
