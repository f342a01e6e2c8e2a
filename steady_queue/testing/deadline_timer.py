"""Cancels an async task at its deadline: in a test, no worker watches the deadlines of its jobs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.jobs.running.context import TaskControl


def cancel_at_deadline(control: TaskControl) -> None:
    """Cancel the async task that runs in this loop by a timer of its own. Functions in threads are not stopped."""
    with suppress(RuntimeError):  # no loop runs in this thread: a function can only look at the time by itself
        loop, task, deadline = asyncio.get_running_loop(), asyncio.current_task(), control.deadline

        def cancel() -> None:
            if task is not None and control.deadline is deadline:
                control.has_timed_out = True
                task.cancel()

        if deadline is not None:
            loop.call_later(deadline.seconds, cancel)
