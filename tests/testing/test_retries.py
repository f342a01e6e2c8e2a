"""Retries: which attempts are followed by another one, after which delay, and what remains of them.

T2, T3, R5 and R8 are items of the list of what other queues can do.
"""

from __future__ import annotations

import math
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

from steady_queue import actions
from steady_queue.jobs.compat import TaskResultStatus, task_finished
from steady_queue.jobs.results.attempt_errors import AttemptError
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
from steady_queue.store.outcome import MAX_ERRORS, MAX_WORKER_IDS_CHARACTERS
from steady_queue.testing import enqueued
from tests.shop.tasks import fail
from tests.support.databases.tables import counts, query
from tests.support.tasks import retrying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task, TaskResult
    from tests.testing.conftest import Run

# The store and the worker are tested on all databases: tests/store/operations/test_retried.py, tests/aio/worker.
pytestmark = [pytest.mark.contract, pytest.mark.usually_on("sqlite")]

FLAKY = [retrying.flaky, retrying.flaky_in_thread]
ASKS = [retrying.asks, retrying.asks_in_thread]


@pytest.fixture(autouse=True)
def empty_records() -> Iterator[None]:
    retrying.seen.clear()
    retrying.attempts.clear()
    yield
    retrying.seen.clear()
    retrying.attempts.clear()


def only(results: list[TaskResult[Any]]) -> SteadyQueueResult[Any]:
    (result,) = results
    assert isinstance(result, SteadyQueueResult)
    return result


def paths(result: TaskResult[Any]) -> list[str]:
    return [error.exception_class_path for error in result.errors]


@pytest.mark.parametrize("task", FLAKY)
def test_a_task_that_fails_is_retried_until_it_succeeds(database: str, run: Run, task: Task[..., Any]) -> None:
    task.enqueue(3)
    results = run(including_scheduled=True)
    assert [result.status for result in results] == [
        TaskResultStatus.READY,
        TaskResultStatus.READY,
        TaskResultStatus.SUCCESSFUL,
    ]
    assert [result.attempts for result in results] == [1, 2, 3]
    assert retrying.attempts == [1, 2, 3]
    assert results[-1].return_value == 3
    assert paths(results[-1]) == ["builtins.ValueError"] * 2
    assert counts(database) == {}


@pytest.mark.parametrize("task", FLAKY)
def test_a_task_that_is_out_of_attempts_has_failed_and_is_exhausted(
    database: str, run: Run, task: Task[..., Any]
) -> None:
    result = task.enqueue(100)
    run(including_scheduled=True)
    result.refresh()
    assert isinstance(result, SteadyQueueResult)
    assert (result.status, result.state) == (TaskResultStatus.FAILED, TaskState.EXHAUSTED)
    assert (result.attempts, result.retries, len(result.worker_ids)) == (3, 2, 3)
    assert counts(database) == {"failed": 1}


def test_a_task_without_attempts_left_from_the_beginning_has_failed_and_is_not_exhausted(
    database: str, run: Run
) -> None:
    retrying.flaky.using(max_attempts=1).enqueue(100)
    assert only(run()).state is TaskState.FAILED


def test_while_it_waits_a_task_is_retrying_and_its_error_can_be_read(database: str, run: Run) -> None:
    before = datetime.now(UTC)
    retrying.stepped.enqueue(2)
    result = only(run())
    assert (result.status, result.state, result.retries) == (TaskResultStatus.READY, TaskState.RETRYING, 1)
    assert not result.is_finished
    (error,) = result.errors
    assert isinstance(error, AttemptError)
    assert error.exception_class is ValueError
    assert (error.message, error.attempt, error.worker_id) == ("attempt 1", 1, "run_pending")
    assert "ValueError: attempt 1" in error.traceback
    assert error.started_at is not None
    assert error.ended_at is not None
    # The database's clock and that of the process may differ by some milliseconds.
    assert before - timedelta(seconds=1) < error.started_at <= error.ended_at + timedelta(seconds=1)
    assert counts(database) == {"scheduled": 1}
    assert only(enqueued(retrying.stepped)).state is TaskState.RETRYING


def test_the_backoff_sees_the_result_with_the_error_of_the_attempt(database: str, run: Run) -> None:
    retrying.flaky.enqueue(3)
    run(including_scheduled=True)
    (first, first_result), (second, second_result) = retrying.seen
    assert (str(first), str(second)) == ("attempt 1", "attempt 2")
    assert [first_result.attempts, second_result.attempts] == [1, 2]
    assert [len(first_result.errors), len(second_result.errors)] == [1, 2]
    assert second_result.status is TaskResultStatus.FAILED
    assert second_result.errors[-1].exception_class is ValueError
    assert second_result.args == [3]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (retrying.with_failing_backoff, "builtins.LookupError: 'the backoff is wrong'"),
        (retrying.with_nonsense_backoff, "builtins.TypeError: backoff must return a number of seconds"),
    ],
)
def test_if_the_backoff_fails_the_task_fails_with_both_errors(
    database: str, run: Run, task: Task[..., Any], message: str
) -> None:
    task.enqueue()
    result = only(run())
    assert (result.state, result.attempts) == (TaskState.FAILED, 1)
    (error,) = result.errors
    assert isinstance(error, AttemptError)
    assert error.exception_class is ValueError
    assert error.message.startswith("the task is wrong; the task is not retried, because its backoff failed: ")
    assert message.replace("'", "") in error.message.replace("'", "")
    assert "ValueError: the task is wrong" in error.traceback
    assert error.traceback.count("Traceback (most recent call last)") == 2
    assert query(database, "SELECT exception_class FROM steady_queue_failedexecution") == [("builtins.ValueError",)]


def test_a_backoff_that_returns_none_ends_the_attempts(database: str, run: Run) -> None:
    retrying.never_again.enqueue()
    result = only(run())
    assert (result.state, result.attempts) == (TaskState.FAILED, 1)


def test_a_backoff_may_return_a_timedelta(database: str, run: Run) -> None:
    retrying.waits_minutes.enqueue()
    run()
    assert run(including_scheduled=timedelta(seconds=50)) == []
    assert [result.attempts for result in run(including_scheduled=timedelta(seconds=70))] == [2]


def test_the_delay_of_each_attempt_is_that_of_the_backoff(database: str, run: Run) -> None:
    retrying.stepped.enqueue(100)
    run()
    assert len(run(including_scheduled=timedelta(seconds=59))) == 0
    # From now on by the time to which the clock is moved: after a minute, then after five more, then after thirty.
    assert len(run(including_scheduled=timedelta(minutes=5))) == 1
    assert len(run(including_scheduled=timedelta(minutes=34))) == 1
    assert [result.attempts for result in run(including_scheduled=timedelta(minutes=36))] == [4]


@pytest.mark.parametrize(
    ("task", "error", "attempts"),
    [
        (retrying.retries_lookup_errors, "key", 3),
        (retrying.retries_lookup_errors, "", 1),
        (retrying.gives_up_on_key_errors, "", 3),
        (retrying.gives_up_on_key_errors, "key", 1),
        (retrying.flaky, "exit", 1),
    ],
)
def test_the_exception_decides_whether_a_task_is_retried(
    database: str, run: Run, task: Task[..., Any], error: str, attempts: int
) -> None:
    task.enqueue(100, error)
    results = run(including_scheduled=True)
    assert results[-1].attempts == attempts
    state = getattr(results[-1], "state", None)
    assert state is (TaskState.EXHAUSTED if attempts > 1 else TaskState.FAILED)


@pytest.mark.parametrize("task", ASKS)
@pytest.mark.parametrize("how", ["later", "by backoff"])
def test_a_task_that_asks_for_it_is_retried_and_spends_an_attempt(
    database: str, run: Run, task: Task[..., Any], how: str
) -> None:
    task.enqueue(how)
    _, last = run(including_scheduled=True)
    assert (last.return_value, last.attempts) == ("done", 2)
    assert paths(last) == ["steady_queue.jobs.running.requests.RetryLater"]
    if how == "by backoff":
        assert "ValueError: the cause" in last.errors[0].traceback


@pytest.mark.parametrize("task", ASKS)
@pytest.mark.parametrize("how", ["snooze", "until"])
def test_r5_a_task_that_snoozes_runs_again_and_spends_no_attempt(
    database: str, run: Run, task: Task[..., Any], how: str
) -> None:
    task.enqueue(how)
    first, last = run(including_scheduled=True)
    assert isinstance(first, SteadyQueueResult)
    assert (first.state, first.attempts) == (TaskState.SCHEDULED, 0)
    assert (last.return_value, last.attempts, last.errors) == ("done", 1, [])


@pytest.mark.parametrize("task", ASKS)
def test_r5_a_task_that_gives_up_has_failed_although_it_has_attempts_left(
    database: str, run: Run, task: Task[..., Any]
) -> None:
    task.enqueue("give up")
    result = only(run(including_scheduled=True))
    assert (result.state, result.attempts) == (TaskState.FAILED, 1)
    assert "GiveUp: it makes no sense" in result.errors[0].traceback


@pytest.mark.parametrize("task", ASKS)
def test_r5_a_task_that_is_interrupted_is_released_and_spends_no_attempt(
    database: str, run: Run, task: Task[..., Any]
) -> None:
    task.enqueue("interrupted")
    first, last = run()
    assert isinstance(first, SteadyQueueResult)
    assert (first.state, first.attempts) == (TaskState.READY, 0)
    assert (last.return_value, last.attempts, last.errors) == ("done", 1, [])


def test_retry_later_without_attempts_says_which_option_is_missing(database: str, run: Run) -> None:
    retrying.asks_without_attempts.enqueue()
    result = only(run())
    assert result.state is TaskState.FAILED
    assert "not retried, because its max_attempts is 1" in result.errors[0].traceback


def test_t2_the_options_of_celery_have_counterparts(database: str, run: Run) -> None:
    """autoretry_for, dont_autoretry_for, max_retries, retry_backoff, retry_backoff_max and retry_jitter."""
    retrying.as_with_celery.enqueue(100)
    results = run(including_scheduled=True)
    assert [result.attempts for result in results] == [1, 2, 3, 4]
    assert {tuple(result.args) for result in results} == {(100,)}
    # Failed with the exception of the task itself.
    assert paths(results[-1]) == ["builtins.ValueError"] * 4

    retrying.as_with_celery.enqueue(100, "key")
    assert only(run(including_scheduled=True)).state is TaskState.FAILED


def test_r8_a_task_may_be_retried_for_ever_and_its_history_is_bounded(database: str, run: Run) -> None:
    count = MAX_WORKER_IDS_CHARACTERS // len("run_pending,") + 10
    retrying.endless.enqueue(count)
    results = run(including_scheduled=True)
    last = results[-1]
    assert last.return_value == last.attempts == count
    assert len(last.errors) == MAX_ERRORS
    numbers = [error.attempt for error in last.errors if isinstance(error, AttemptError)]
    assert numbers == list(range(count - MAX_ERRORS, count))
    assert set(last.worker_ids) == {"run_pending"}
    assert count - 20 < len(last.worker_ids) < count - 5


def test_t3_a_task_is_one_row_over_all_its_attempts(database: str, run: Run) -> None:
    result = retrying.flaky.enqueue(3)
    results = run(including_scheduled=True)
    assert [each.id for each in results] == [result.id] * 3
    assert query(database, "SELECT count(*) FROM steady_queue_job") == [(1,)]


def test_the_number_of_attempts_can_be_set_for_a_call(database: str, run: Run) -> None:
    retrying.flaky.using(max_attempts=5).enqueue(100)
    retrying.flaky.using(max_attempts=math.inf).enqueue(10)
    results = run(including_scheduled=True)
    assert max(result.attempts for result in results if len(result.args) and result.args[0] == 100) == 5
    assert max(result.attempts for result in results if result.args[0] == 10) == 10


def test_a_task_that_is_retried_by_hand_has_all_its_attempts_again(database: str, run: Run) -> None:
    result = retrying.flaky.enqueue(6)
    run(including_scheduled=True)
    actions.retry(result.id)
    result.refresh()
    assert isinstance(result, SteadyQueueResult)
    assert (result.state, result.retries, result.attempts) == (TaskState.READY, 0, 3)
    assert [each.attempts for each in run(including_scheduled=True)] == [4, 5, 6]
    result.refresh()
    assert result.return_value == 6
    assert retrying.attempts == [1, 2, 3, 4, 5, 6]


def test_a_task_that_waits_for_its_next_attempt_can_be_run_now_or_discarded(database: str, run: Run) -> None:
    first, second = retrying.stepped.enqueue(2), retrying.stepped.enqueue(2)
    assert len(run()) == 2
    actions.run_now(first.id)
    actions.discard(second.id)
    assert only(run()).return_value == 2
    assert counts(database) == {}


def test_while_it_waits_a_limited_task_holds_no_slot(database: str, run: Run) -> None:
    retrying.limited.enqueue()
    retrying.limited.enqueue(True)
    first, second = run()
    assert (getattr(first, "state", None), second.return_value) == (TaskState.RETRYING, True)
    assert query(database, "SELECT count(*) FROM steady_queue_semaphore") == [(0,)]


def test_the_signal_is_sent_and_the_error_raised_only_for_the_last_failure(database: str, run: Run) -> None:
    received: list[TaskResult[Any]] = []

    def receive(*, task_result: TaskResult[Any], **_: Any) -> None:
        received.append(task_result)

    task_finished.connect(receive)
    try:
        retrying.stepped.enqueue(100)
        assert len(run(raising=True)) == 1
        assert received == []
        with pytest.raises(ValueError, match="attempt 4"):
            run(including_scheduled=True, raising=True)
    finally:
        task_finished.disconnect(receive)
    (result,) = received
    assert isinstance(result, SteadyQueueResult)
    assert (result.status, result.state, len(result.errors)) == (TaskResultStatus.FAILED, TaskState.EXHAUSTED, 4)


def test_the_defaults_of_a_project_hold_for_tasks_without_options(database: str, run: Run) -> None:
    backends: dict[str, Any] = deepcopy(settings.TASKS)
    for backend in backends.values():
        backend.setdefault("OPTIONS", {}).update(max_attempts=2, backoff=retrying.record)
    with override_settings(TASKS=backends):
        fail.enqueue("it failed")
        assert [result.attempts for result in run(including_scheduled=True)] == [1, 2]
