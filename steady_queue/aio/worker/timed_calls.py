"""Calls of tasks that have a timeout: they get a deadline, and end with TaskTimeout if they are cancelled at it.

Who cancels them is not decided here: the worker watches the deadlines of all its jobs (timeouts.py).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from steady_queue.jobs.context import Deadline

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.jobs.context import TaskControl

    #: Called where the job runs, when a job has got a deadline.
    Watch = Callable[[TaskControl], None]


def set_deadline(control: TaskControl, seconds: float, watch: Watch) -> Deadline:
    """The time of an attempt begins now, in this thread."""
    control.deadline = deadline = Deadline.after(seconds)
    watch(control)
    return deadline


async def call_with_timeout(
    control: TaskControl,
    seconds: float,
    call: Callable[[], Awaitable[Any]],
    *,
    watch: Watch,
    session: OrmSession | None = None,
) -> Any:
    """Await the task; raises TaskTimeout when it was cancelled at its deadline and has really stopped."""
    deadline = set_deadline(control, seconds, watch)
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


def cancel_at_deadline(control: TaskControl) -> None:
    """Cancel an async task by a timer of its own: for tests, where no worker watches the deadlines."""
    with suppress(RuntimeError):  # no loop runs in this thread: a function can only look at the time by itself
        loop, task, deadline = asyncio.get_running_loop(), asyncio.current_task(), control.deadline

        def cancel() -> None:
            if task is not None and control.deadline is deadline:
                control.has_timed_out = True
                task.cancel()

        if deadline is not None:
            loop.call_later(deadline.seconds, cancel)
