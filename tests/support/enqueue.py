"""Enqueues a call of a task from sync and from async code; the fixture `put` is each of the two."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult


class Put(Protocol):
    """Enqueues a call of a task, from sync or from async code."""

    def __call__(self, task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]: ...


def put_sync(task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
    return task.enqueue(*args, **kwargs)


def put_async(task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
    return asyncio.run(task.aenqueue(*args, **kwargs), debug=True)
