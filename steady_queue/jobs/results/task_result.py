"""The result of a task: the framework's TaskResult with what Steady Queue knows of the task beyond it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from steady_queue.jobs.compat import GenericTaskResult
from steady_queue.store.job import FailureKind, Status
from steady_queue.store.outcome import Failed

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta
    from typing import Self

    from steady_queue.jobs.compat import TaskResult
    from steady_queue.jobs.results.old_arguments import OldArguments
    from steady_queue.jobs.results.updates import Update
    from steady_queue.jobs.running.reports import LogLine, Progress
    from steady_queue.store.job import JobRecord, JobState
    from steady_queue.store.operations.actions.cancellation import CancelOutcome
    from steady_queue.store.outcome import Retried

T = TypeVar("T")


class TaskState(StrEnum):
    """The exact state of a task. The framework's `status` has four values, this has ten."""

    READY = "ready"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    RUNNING = "running"
    #: It has failed, and waits for its next attempt.
    RETRYING = "retrying"
    FINISHED = "finished"
    FAILED = "failed"
    #: It has failed as often as it may.
    EXHAUSTED = "exhausted"
    CANCELLED = "cancelled"
    #: It was not started in time.
    EXPIRED = "expired"

    @property
    def is_final(self) -> bool:
        """Whether the task has ended. Only an action can change the state then."""
        return self in _FINAL


_FINAL = frozenset({TaskState.FINISHED, TaskState.FAILED, TaskState.EXHAUSTED, TaskState.CANCELLED, TaskState.EXPIRED})
_STATES = {
    Status.READY: TaskState.READY,
    Status.SCHEDULED: TaskState.SCHEDULED,
    Status.BLOCKED: TaskState.BLOCKED,
    Status.CLAIMED: TaskState.RUNNING,
    Status.FINISHED: TaskState.FINISHED,
}
_FAILURES: dict[int, TaskState] = {
    FailureKind.FAILED: TaskState.FAILED,
    FailureKind.EXHAUSTED: TaskState.EXHAUSTED,
    FailureKind.CANCELLED: TaskState.CANCELLED,
    FailureKind.EXPIRED: TaskState.EXPIRED,
}


def state_of(record: JobRecord | JobState) -> TaskState:
    """Return the exact state of a job that was read from the database."""
    if record.status is Status.FAILED:
        # A newer version may have stored a kind that this one lacks.
        return _FAILURES.get(record.failure_kind or 0, TaskState.FAILED)
    if record.status is Status.SCHEDULED and record.retries:
        return TaskState.RETRYING
    return _STATES[record.status]


def state_of_failure(outcome: Failed | Retried) -> TaskState:
    """Return the state of a job whose attempt has ended like this."""
    return _FAILURES[outcome.kind] if isinstance(outcome, Failed) else TaskState.RETRYING


class CancellingBackend(Protocol):
    """The backend of a task of Steady Queue."""

    def cancel(self, result_id: str, *, by: str, reason: str) -> CancelOutcome: ...
    async def acancel(self, result_id: str, *, by: str, reason: str) -> CancelOutcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyQueueResult(GenericTaskResult[T]):
    """The result of a task of Steady Queue."""

    state: TaskState = TaskState.READY
    #: How many attempts have begun; `worker_ids` may have fewer.
    attempt_count: int = 0
    #: Automatic retries since the task was enqueued, or retried by hand.
    retries: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    #: What the task last reported, if it did; the result that a running task has of itself does not contain it.
    progress: Progress | None = None
    log: list[LogLine] = field(default_factory=list)
    #: The arguments that it had before it was retried with others, the oldest first.
    old_arguments: list[OldArguments] = field(default_factory=list)

    @property
    def attempts(self) -> int:
        return max(self.attempt_count, len(self.worker_ids))

    # The zero-argument super() does not work in a dataclass with slots: it refers to the class before the slots.

    def refresh(self) -> None:
        self._copy(self.task.get_backend().get_result(self.id))

    async def arefresh(self) -> None:
        self._copy(await self.task.get_backend().aget_result(self.id))

    # waiting.py uses the modules that build results, which import this one.

    def wait(self, timeout: float | timedelta | None = None) -> Self:
        """Block until the task has ended, however it has, and return this result with what is known then.

        `timeout` has seconds; after it, TimeoutError is raised. For sync code outside a transaction.
        """
        from steady_queue.jobs.results import waiting

        return waiting.wait(self, timeout)

    async def awaited(self, timeout: float | timedelta | None = None) -> Self:
        """The async form of `wait`."""
        from steady_queue.jobs.results import waiting

        return await waiting.awaited(self, timeout)

    def updates(self, timeout: float | timedelta | None = None) -> AsyncGenerator[Update, None]:
        """Yield the state of the task, its progress and its log, as they are and whenever they change.

        The last update is the state in which the task has ended; then this result is up to date.
        """
        from steady_queue.jobs.results import waiting

        return waiting.updates(self, timeout)

    def cancel(self, *, by: str = "", reason: str = "") -> CancelOutcome:
        """Cancel the task: see `steady_queue.actions.cancel`. This object is not refreshed."""
        return self._backend().cancel(self.id, by=by, reason=reason)

    async def acancel(self, *, by: str = "", reason: str = "") -> CancelOutcome:
        return await self._backend().acancel(self.id, by=by, reason=reason)

    def _backend(self) -> CancellingBackend:
        return cast("CancellingBackend", self.task.get_backend())

    def _copy(self, other: TaskResult[Any]) -> None:
        """Take over everything of a newer result but what identifies the task."""
        for name in _REFRESHED:
            object.__setattr__(self, name, getattr(other, name))


_REFRESHED = [each.name for each in fields(SteadyQueueResult) if each.name not in ("task", "id", "backend")]
