"""A job that a worker runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.errors import TaskCancelled
from steady_queue.jobs.running.context import TaskControl
from steady_queue.store.job import FailureKind
from steady_queue.store.outcome import Failed, Released, report_of

if TYPE_CHECKING:
    import asyncio

    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome


class Running(TaskControl):
    """A job that runs now, or waits for a thread. Without an ORM session it is in a thread and cannot be stopped."""

    __slots__ = ("has_begun", "session", "task", "thread_id", "times")

    #: Why the process stopped the task, which is released then; None if it did not.
    release_reason: str | None = None

    def __init__(self, claim: Claim, times: list[float], session: OrmSession | None = None) -> None:
        # Without super(): one call less for each task.
        self.claim = claim
        self.completed = None
        self.has_ended = False
        self.has_timed_out = False
        self.session = session
        #: See `TaskCounts.times_of`.
        self.times = times
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        #: The thread in which it runs, once it has begun there.
        self.thread_id = 0


def build_stopped(running: Running, reason: str = "") -> Outcome:
    """Return the outcome of a task that was stopped, or not started: it is released, unless it is to be cancelled."""
    if running.cancellation is None:
        return Released(running.claim, reason, was_started=running.has_begun)
    error = report_of(TaskCancelled(*running.cancellation))
    return Failed(running.claim, error, kind=FailureKind.CANCELLED, is_attempt=running.has_begun)
