"""What happens to a job whose attempt has failed: another attempt later, or none.

Also to a job whose process was lost, which is retried only if its task has `retry_lost`.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from steady_queue.errors import (
    ProcessExitError,
    ProcessMissingError,
    ProcessPrunedError,
    SteadyQueueError,
    TaskCancelled,
    TransactionEndedByTask,
)
from steady_queue.events.tracebacks import MESSAGE_LENGTH, cut, message_of
from steady_queue.jobs.definition.durations import is_delay, read_seconds
from steady_queue.jobs.definition.policy import Policies
from steady_queue.jobs.registry import registry
from steady_queue.jobs.results import results
from steady_queue.jobs.running.requests import GiveUp, Interrupted, RetryLater, Snooze
from steady_queue.store.job import FailureKind
from steady_queue.store.outcome import ErrorReport, Failed, Released, Retried, Snoozed, report_of

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task
    from steady_queue.jobs.definition.policy import Policy
    from steady_queue.store.job import CancelRequest, Claim

    Decision = Failed | Retried | Snoozed | Released

#: The errors of jobs whose process was lost, by the paths in their reports.
_LOST: dict[str, type[SteadyQueueError]] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (ProcessExitError, ProcessPrunedError, ProcessMissingError)
}
_policies = Policies()


def decide(policy: Policy, claim: Claim, error: BaseException, task: Task[..., Any], worker_id: str) -> Decision:
    """Return the outcome of an attempt that raised this exception."""
    match error:
        case Snooze():
            return Snoozed(claim, _seconds_until_end(error), message_of(error), was_started=True)
        case Interrupted():
            return Released(claim, message_of(error) or "the task was interrupted", was_started=True)
        case TaskCancelled():
            return Failed(claim, report_of(error), kind=FailureKind.CANCELLED)
        case GiveUp() | TransactionEndedByTask():  # part of its work may have been committed
            return Failed(claim, report_of(error))
        case RetryLater():
            if policy.max_attempts <= 1:
                error.add_note("the task is not retried, because its max_attempts is 1")
        case _:
            if not isinstance(error, policy.retry_on) or isinstance(error, policy.give_up_on):
                return Failed(claim, report_of(error))
    return _decide_by_attempts(policy, claim, error, report_of(error), task, worker_id)


def as_cancelled(error: BaseException, request: CancelRequest) -> TaskCancelled:
    """Return what a task that is to be cancelled has raised as TaskCancelled, with it as the cause."""
    if isinstance(error, TaskCancelled):
        return error
    cancelled = TaskCancelled(*request)
    cancelled.__cause__ = error
    return cancelled


def decide_lost(claim: Claim, report: ErrorReport, worker_id: str) -> Failed | Retried:
    """Return the outcome of a job whose process was lost."""
    kind = _LOST.get(report.exception_class)
    try:
        task = registry.resolve(claim.task_path)
        policy = _policies.of_claim(claim, task)
    except Exception:  # importing a module may raise anything
        return Failed(claim, report)
    if kind is None or not policy.retry_lost:
        return Failed(claim, report)
    return _decide_by_attempts(policy, claim, kind(report.message), report, task, worker_id)


def _decide_by_attempts(
    policy: Policy, claim: Claim, error: BaseException, report: ErrorReport, task: Task[..., Any], worker_id: str
) -> Failed | Retried:
    """Retry the job after its delay, if it has attempts left."""
    if claim.retries + 1 >= policy.max_attempts:
        return Failed(claim, report, kind=FailureKind.EXHAUSTED if policy.max_attempts > 1 else FailureKind.FAILED)
    if isinstance(error, RetryLater) and error.after_seconds is not None:
        return Retried(claim, report, error.after_seconds)
    try:
        # As proposed for Django, the result has the error of this attempt already. It is not the one that the task has:
        # that is concluded when the task has failed for good.
        result = results.conclude(results.of_claim(claim, task, worker_id), Retried(claim, report, 0))
        seconds = _check_delay(policy.backoff(error, result))
    except BaseException as problem:  # the code of the project: the claim must end all the same
        return Failed(claim, _with_problem(error, report, problem))
    return Failed(claim, report) if seconds is None else Retried(claim, report, seconds)


def _check_delay(delay: object) -> float | None:
    """Return what a backoff returned as seconds; raises TypeError if it is neither a delay nor None."""
    if delay is None:
        return None
    seconds = read_seconds(delay)
    if not is_delay(seconds):
        raise TypeError(
            f"backoff must return a number of seconds that is not negative, a timedelta or None, not {delay!r:.200}"
        )
    return seconds


def _with_problem(error: BaseException, report: ErrorReport, problem: BaseException) -> ErrorReport:
    """Return the report of a failure whose backoff failed too: both can be read, in the result and in the log."""
    if problem.__context__ is error:
        problem.__context__ = None  # the traceback of the task's own error is in the report already
    other = report_of(problem)
    why = f"the task is not retried, because its backoff failed: {other.exception_class}: {other.message}"
    with suppress(Exception):  # an exception may have any attributes
        error.add_note(why)
    return ErrorReport(
        report.exception_class,
        cut(f"{report.message}; {why}", MESSAGE_LENGTH),
        f"{report.traceback}\nThe task is not retried, because its backoff failed:\n\n{other.traceback}",
    )


def _seconds_until_end(request: Snooze) -> float:
    if request.until is None:
        return request.after_seconds or 0.0
    return max(0.0, (request.until - datetime.now(UTC)).total_seconds())
