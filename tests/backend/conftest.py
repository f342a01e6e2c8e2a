from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from tests.support.aliases import queue_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.jobs.compat import Task, TaskResult


class Put(Protocol):
    """Enqueues a call of a task, from sync or from async code."""

    def __call__(self, task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]: ...


def put_sync(task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
    return task.enqueue(*args, **kwargs)


def put_async(task: Task[..., Any], /, *args: Any, **kwargs: Any) -> TaskResult[Any]:
    return asyncio.run(task.aenqueue(*args, **kwargs), debug=True)


@pytest.fixture(params=[put_sync, put_async], ids=["enqueue", "aenqueue"])
def put(request: pytest.FixtureRequest) -> Put:
    """Both ways to enqueue: what is true of one must be true of the other."""
    way: Put = request.param
    return way


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Iterator[str]:
    """The queue in a database named by the test itself; `database` is for what must hold on all three."""
    with queue_in(request.param) as alias:
        yield alias
