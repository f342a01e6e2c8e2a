"""The exact state of a task: in new results, in results that were read, in signals and in copies."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from steady_queue import SteadyQueueResult, TaskState, enqueue_all
from steady_queue.aio import running
from steady_queue.jobs.compat import TaskResult, TaskResultStatus, task_finished, task_started
from steady_queue.store.job import FailureKind, Lane
from steady_queue.store.outcome import Failed, Finished, Retried
from tests.shop import tasks
from tests.support.runtime import worker
from tests.support.store.manual_worker import report
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import Claim
    from tests.jobs.conftest import Look

pytestmark = pytest.mark.contract

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def failed(kind: FailureKind) -> Callable[[Claim], Failed]:
    return lambda claim: Failed(claim, report(ValueError("no")), kind=kind)


def retried(claim: Claim) -> Retried:
    return Retried(claim, report(ValueError("no")), delay_seconds=60)


ENDS: dict[TaskState, tuple[Callable[[Claim], Any], TaskResultStatus]] = {
    TaskState.FINISHED: (Finished, SUCCESSFUL),
    TaskState.FAILED: (failed(FailureKind.FAILED), FAILED),
    TaskState.EXHAUSTED: (failed(FailureKind.EXHAUSTED), FAILED),
    TaskState.CANCELLED: (failed(FailureKind.CANCELLED), FAILED),
    TaskState.EXPIRED: (failed(FailureKind.EXPIRED), FAILED),
    TaskState.RETRYING: (retried, READY),
}


# -- results that were read -------------------------------------------------------------------------------------------


def test_r7_a_task_that_waits_is_ready_scheduled_or_blocked(database: str, refreshed: Look) -> None:
    waiting: dict[TaskState, SteadyQueueResult[Any]] = {
        TaskState.READY: tasks.add.enqueue(1),
        TaskState.SCHEDULED: tasks.add.using(run_after=timedelta(days=1)).enqueue(1),
    }
    tasks.charge.enqueue("ada")
    waiting[TaskState.BLOCKED] = tasks.charge.enqueue("ada")
    for state, result in waiting.items():
        assert (read(refreshed, result), result.status) == (state, READY)
        assert not state.is_final


@pytest.mark.parametrize("state", ENDS, ids=str)
def test_r7_each_end_of_an_attempt_is_a_state_with_its_error_worker_and_times(
    database: str, refreshed: Look, state: TaskState
) -> None:
    """R7 of raquel: claimed, success, failed, cancelled, expired, exhausted, with what is known of them."""
    result = tasks.add.enqueue(1)
    store = SyncStore(database)
    (claimed,) = store.claim(store.worker("worker-1"), lane=Lane.THREAD)
    assert (read(refreshed, result), result.status) == (TaskState.RUNNING, RUNNING)
    assert (result.attempts, result.worker_ids) == (1, ["worker-1"])
    assert result.last_attempted_at is not None
    end, status = ENDS[state]
    store.settle(end(claimed), process_name="worker-1")
    assert (read(refreshed, result), result.status) == (state, status)
    assert (result.attempts, result.worker_ids) == (1, ["worker-1"])
    assert state.is_final == result.is_finished == (result.finished_at is not None)
    if state is not TaskState.FINISHED:
        (error,) = result.errors
        assert error.exception_class is ValueError
        assert "no" in error.traceback


def read(refreshed: Look, result: SteadyQueueResult[Any]) -> TaskState:
    return refreshed(result).state  # type: ignore[attr-defined, no-any-return]


# -- new results ------------------------------------------------------------------------------------------------------


def test_a_new_result_has_the_state_that_its_task_has(database: str) -> None:
    later, past = datetime.now(UTC) + timedelta(hours=1), datetime.now(UTC) - timedelta(hours=1)
    assert tasks.add.enqueue(1).state is TaskState.READY
    assert tasks.add.using(run_after=past).enqueue(1).state is TaskState.READY
    assert tasks.add.using(run_after=later).enqueue(1).state is TaskState.SCHEDULED
    assert tasks.charge.using(run_after=later).enqueue("ada").state is TaskState.SCHEDULED
    calls = [tasks.add.bind(1), tasks.add.using(run_after=later).bind(1)]
    assert [result.state for result in enqueue_all(calls)] == [TaskState.READY, TaskState.SCHEDULED]


# -- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.usually_on("sqlite")
async def test_signals_have_the_state_of_the_task(database: str) -> None:
    seen: list[tuple[str, Any]] = []

    def note(task_result: Any, **_: Any) -> None:
        seen.append((task_result.task.name, task_result.state))

    signals = (task_started, task_finished)
    for signal in signals:
        signal.connect(note)
    try:
        async with running(worker()):
            await (await tasks.add.aenqueue(1)).awaited(20)
            await (await tasks.fail.aenqueue("no")).awaited(20)
    finally:
        for signal in signals:
            signal.disconnect(note)
    assert seen == [("add", "running"), ("add", "finished"), ("fail", "running"), ("fail", "failed")]


# -- the class --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, dataclasses.replace, lambda result: pickle.loads(pickle.dumps(result))],
    ids=["copy", "deepcopy", "replace", "pickle"],
)
def test_a_copy_has_the_state_and_can_be_waited_for(database: str, copied: Callable[[Any], Any]) -> None:
    result = tasks.add.using(run_after=timedelta(days=1)).enqueue(1)
    again = copied(result)
    assert isinstance(again, SteadyQueueResult)
    assert (again.state, again.id, again.metadata) == (TaskState.SCHEDULED, result.id, {})
    with pytest.raises(TimeoutError, match="it is scheduled"):
        again.wait(0.2)


def test_a_result_is_one_of_the_framework(database: str) -> None:
    result = tasks.add.enqueue(1)
    assert isinstance(result, TaskResult)
    assert isinstance(tasks.add.get_result(result.id), SteadyQueueResult)


def test_type_checkers_know_the_result_and_the_value_of_each_task(database: str) -> None:
    """mypy checks these with the rest of the suite."""
    assert_type(tasks.add.enqueue(1), SteadyQueueResult[int])
    assert_type(tasks.greet.enqueue("Ada"), SteadyQueueResult[str])
    assert_type(tasks.add.using(priority=1).enqueue(1).state, TaskState)
