"""Tasks that are cancelled while they run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from steady_queue import Snooze, task
from steady_queue.errors import TaskCancelled
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.running.context import TaskContext


@task(takes_context=True)
def looks_from_time_to_time(context: TaskContext, name: Any, how: str = "raises") -> str:
    """A function in a thread that stops itself."""
    task_record.enter("thread", name)
    while not context.is_cancelled:
        if task_record.gate.wait(0.005):
            break
    task_record.leave("thread")
    if how == "raises":
        context.raise_if_cancelled()
    if how == "snoozes":
        raise Snooze(after=1)
    return "finished all the same"


@task
async def cleans_up(name: Any, how: str) -> str:
    """An async task that reacts to its cancellation."""
    task_record.enter("async", name)
    try:
        await task_record.wake_event.wait()
    except asyncio.CancelledError:
        if how == "returns":
            return "finished all the same"
        if how == "raises":
            raise ValueError("the clean-up failed") from None
        raise
    finally:
        task_record.leave("async")
    return "finished"


@task(takes_context=True)
async def shows_request(context: TaskContext, name: Any) -> list[str]:
    """An async task that returns who has cancelled it, and why."""
    task_record.enter("async", name)
    try:
        await task_record.wake_event.wait()
    except asyncio.CancelledError:
        try:
            context.raise_if_cancelled()
        except TaskCancelled as request:
            return [request.by, request.reason]
    finally:
        task_record.leave("async")
    return []
