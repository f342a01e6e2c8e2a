"""Calls of tasks that have a timeout: they get a deadline, and end with TaskTimeout if they are cancelled at it.

Who cancels them is not decided here: the worker watches the deadlines of all its jobs (timeouts.py).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from steady_queue.jobs.running.context import Deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.jobs.running.context import TaskControl

    #: Called where the job runs, when a job has got a deadline.
    WatchDeadline = Callable[[TaskControl], None]


def set_deadline(control: TaskControl, seconds: float, watch_deadline: WatchDeadline) -> Deadline:
    """The time of an attempt begins now, in this thread."""
    control.deadline = deadline = Deadline.after(seconds)
    watch_deadline(control)
    return deadline


async def call_with_timeout(
    control: TaskControl,
    seconds: float,
    call: Callable[[], Awaitable[Any]],
    watch_deadline: WatchDeadline,
    session: OrmSession | None = None,
) -> Any:
    """Await the task; raises TaskTimeout when it was cancelled at its deadline and has really stopped."""
    deadline = set_deadline(control, seconds, watch_deadline)
    try:
        return await call()
    except asyncio.CancelledError as error:
        if not control.has_timed_out or control.cancellation is not None:
            raise
        if session is not None:
            await session.wait_for_calls()
        while (current := asyncio.current_task()) is not None and current.cancelling():
            current.uncancel()  # what follows, such as receivers of signals, is not cancelled
        raise deadline.error() from error
    finally:
        control.deadline = None  # the task has ended: it must not be cancelled again
