"""A job that a worker runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.jobs.context import TaskControl

if TYPE_CHECKING:
    import asyncio

    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.store.job import Claim


class Running(TaskControl):
    """A job that runs now, or waits for a thread. Without an ORM session it is in a thread and cannot be stopped."""

    __slots__ = ("has_begun", "session", "task", "thread_id")

    #: Why the process stopped the task, which is released then; None if it did not.
    release_reason: str | None = None

    def __init__(self, claim: Claim, session: OrmSession | None = None) -> None:
        # Without super(): one call less for each task.
        self.claim = claim
        self.completed = None
        self.has_ended = False
        self.has_timed_out = False
        self.session = session
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        #: The thread in which it runs, once it has begun there.
        self.thread_id = 0
