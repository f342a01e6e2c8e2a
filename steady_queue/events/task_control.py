"""Events of retries, timeouts, cancellation, expiry and uniqueness."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import Event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

__all__ = [
    "JobCancelled",
    "JobCommitConfirmed",
    "JobContinuedAfterCompletion",
    "JobDisplaced",
    "JobPastTimeout",
    "JobRetryScheduled",
    "JobSnoozed",
    "JobsCancelRequested",
    "JobsCancelled",
    "JobsExpired",
    "JobsReplaced",
    "RecurringUnfinished",
    "RetryRefused",
    "ThreadsStuck",
]


class JobRetryScheduled(Event):
    """An attempt failed, and the task is scheduled for the next one."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "%(task_path)s %(job_id)s failed in attempt %(attempt)d, the next one is in %(delay_seconds).1f s: %(error)s"
    )
    job_id: UUID
    task_path: str
    attempt: int
    delay_seconds: float
    error: str


class JobSnoozed(Event):
    """The task asked to run again later."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s runs again in %(delay_seconds).1f s: %(reason)s"
    job_id: UUID
    task_path: str
    delay_seconds: float
    reason: str


class JobPastTimeout(Event):
    """The task still runs after its timeout: it is in a thread, or ignores its cancellation. Repeated while it does."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "%(task_path)s %(job_id)s has run for %(seconds).1f s and does not end, its timeout is %(timeout_seconds)g s;"
        " it is here:\n%(stack)s"
    )
    job_id: UUID
    task_path: str
    seconds: float
    timeout_seconds: float
    #: Its current stack, without the frames of the runtime.
    stack: str


class ThreadsStuck(Event):
    """So many threads of the process run tasks that have timed out and do not end that it is of little use."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "%(stuck)d of %(threads)d threads run tasks that have timed out and do not end; the threads cannot be stopped"
    )
    stuck: int
    threads: int
    #: Whether the supervisor replaces the process. Without a supervisor, restart it.
    is_replaced: bool


class JobsExpired(Event):
    """Tasks were not started before they expired. Maintenance reports them, whichever process has ended them."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(count)d job[s] expired: not started in time"
    job_ids: Sequence[UUID]
    count: int


class JobCommitConfirmed(Event):
    """The reply of the commit of a task's own transaction was lost, but the task was finished by it."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s has finished, although the reply of its commit was lost"
    job_id: UUID
    task_path: str


class JobContinuedAfterCompletion(Event):
    """A task raised an error or returned a value after it had been completed in its own transaction."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s had been completed before, so this is ignored: %(ignored)s"
    job_id: UUID
    task_path: str
    ignored: str


class JobCancelled(Event):
    """A task that was running, or was about to, has ended because it was cancelled; `error` says by whom and why."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s %(error)s"
    job_id: UUID
    task_path: str
    error: str


class JobsCancelled(Event):
    """Tasks that waited were cancelled; `by` and `reason` are those of the request, and may be empty."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "cancelled %(count)d waiting job[s] (by: %(by)s, reason: %(reason)s)"
    job_ids: Sequence[UUID]
    count: int
    by: str
    reason: str


class JobsCancelRequested(Event):
    """Running tasks are to be cancelled by the processes that run them."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "requested to cancel %(count)d running job[s] (by: %(by)s, reason: %(reason)s)"
    job_ids: Sequence[UUID]
    count: int
    by: str
    reason: str


class JobDisplaced(Event):
    """A task that was to wait again ended instead, because another task has its unique key."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s ended: the task %(other_id)s has its unique key"
    job_id: UUID
    task_path: str
    other_id: UUID


class RetryRefused(Event):
    """A failed task was not retried, because another task has its unique key."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(job_id)s was not retried: the task %(other_id)s has its unique key"
    job_id: UUID
    other_id: UUID


class JobsReplaced(Event):
    """Tasks that waited were deleted, because new tasks with their unique keys replace them."""

    text: ClassVar[str] = "%(count)d waiting job[s] replaced by new ones with the same unique key"
    job_ids: Sequence[UUID]
    count: int


class RecurringUnfinished(Event):
    """A tick was left out: another task has its unique key, mostly that of an earlier tick, which has not finished."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s at %(run_at)s: left out, an earlier task has not finished"
    key: str
    run_at: datetime
