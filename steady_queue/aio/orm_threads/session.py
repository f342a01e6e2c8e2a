"""The ORM session of an async task: which thread makes its calls, which calls are pending, and what it holds."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from steady_queue.aio.orm_threads.pool import OrmThreads
    from steady_queue.aio.orm_threads.thread import OrmThread


class OrmSession:
    """One task that may use the threads: its thread, its pending calls, and whether it has ended."""

    __slots__ = ("calls", "has_ended", "name", "pool", "thread")

    def __init__(self, name: Callable[[], str], pool: OrmThreads, thread: OrmThread) -> None:
        self.name = name
        self.pool = pool
        #: Changed by its thread only, or while its calls wait.
        self.thread = thread
        #: None before the first call: most tasks make none, and this costs them nothing.
        self.calls: set[Future[Any]] | None = None
        self.has_ended = False

    @property
    def is_holder(self) -> bool:
        """Whether the task has a transaction or a cursor open."""
        return self.thread.holder is self

    @property
    def open_transaction(self) -> str | None:
        """The alias of the database on which the task has a transaction open."""
        return self.thread.connections.open_transaction() if self.is_holder else None

    def add_call(self, future: Future[Any]) -> None:
        if self.calls is None:
            self.calls = set()
            if not self.has_ended:
                self.thread.sessions.add(self)
        self.calls.add(future)
        future.add_done_callback(self.calls.discard)

    async def wait_for_calls(self) -> None:
        """Wait for the calls of a cancelled task that threads are still making."""
        # A task that its process has abandoned is not waited for any longer.
        while not self.pool.is_closed and (calls := list(self.calls or ())):
            with suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(future) for future in calls])

    async def release_thread(self) -> None:
        """Roll back what the task has left open, and free its thread. The task's own code has ended."""
        if not self.is_holder or self.pool.is_closed:
            return
        released = asyncio.wrap_future(self.thread.request_release(self))
        # A pending call may never end: the thread is released after it.
        while not released.done() and not self.calls and not self.pool.is_closed:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([released])


#: In the context of a task, so that the calls of its child tasks are its own.
session_variable: contextvars.ContextVar[OrmSession] = contextvars.ContextVar("steady_queue_orm_session")


def current_session() -> OrmSession | None:
    """Return the session of the running task, if it has one."""
    return session_variable.get(None)
