"""ORM lanes: a few threads that share the ORM calls of all async tasks.

Django sends every ORM call of async code to one thread for the whole process, so hundreds of tasks would queue behind
one slow query. Each lane is a context in which asgiref sends them to a thread, and so to a connection, of its own; a
task is created with a copy of its lane's context. A connection is tidied only while no task of its lane is alive: done
at the end of one task, it would break a neighbour's iteration.
"""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext

from steady_queue.aio.tidiness import tidy_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


#: The calls that a job has sent to its lane's thread. In its context, so that those of its child tasks are among them.
_calls: contextvars.ContextVar[set[Future[Any]]] = contextvars.ContextVar("steady_queue_calls")


class LaneThread(ThreadPoolExecutor):
    """One thread that tells each job of its calls, and knows whether it has been used since it was last tidied."""

    def __init__(self, name: str) -> None:
        super().__init__(max_workers=1, thread_name_prefix=name)
        self.is_used = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.is_used = True
        future = super().submit(fn, *args, **kwargs)
        calls = _calls.get(None)
        if calls is not None:
            calls.add(future)
            future.add_done_callback(calls.discard)
        return future


class OrmLane:
    """A thread, the context that leads to it, and how many tasks use it now."""

    def __init__(self, name: str) -> None:
        self.thread = LaneThread(name)
        self.sensitive = ThreadSensitiveContext(executor=self.thread)
        self.context = contextvars.Context()
        self.alive = 0
        self.is_closed = False

    async def really_stopped(self) -> None:
        """Wait for the calls that the running job, cancelled meanwhile, has left behind in the thread."""
        while calls := list(_calls.get(())):
            with suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(future) for future in calls])

    def left(self) -> None:
        """A task of this lane has ended."""
        self.alive -= 1
        # A task that outlived its process finds the thread closed, and the tidying of its connections ordered already.
        if self.alive == 0 and self.thread.is_used and not self.is_closed:
            ThreadPoolExecutor.submit(self.thread, tidy_connections)
            self.thread.is_used = False


class OrmLanes:
    """The lanes of a process."""

    def __init__(self, count: int) -> None:
        self.lanes = [OrmLane(f"steady-queue-orm-{number}") for number in range(count)]
        self._next = 0

    async def open(self) -> None:
        """Enter each lane's context, empty of everything else, once for the life of the process."""
        for lane in self.lanes:
            enter: Callable[[], Coroutine[Any, Any, Any]] = lane.sensitive.__aenter__
            await asyncio.get_running_loop().create_task(enter(), context=lane.context)

    def enter(self) -> tuple[OrmLane, contextvars.Context]:
        """A lane for one more task, and the context to create it with."""
        self._next = (self._next + 1) % len(self.lanes)
        lane = self.lanes[self._next]
        lane.alive += 1
        context = lane.context.copy()
        context.run(_calls.set, set())
        return lane, context

    def close(self) -> None:
        """Tidy up and let the threads go, without waiting for one that is stuck."""
        for lane in self.lanes:
            lane.is_closed = True
            ThreadPoolExecutor.submit(lane.thread, tidy_connections, close=True)
            lane.thread.shutdown(wait=False)
