"""ORM lanes: a few threads that share the ORM calls of all async tasks.

Django sends every ORM call of async code to one thread for the whole process, so hundreds of tasks would queue behind
one slow query. Each lane is a context in which asgiref sends them to a thread, and so to a connection, of its own; a
task is created with a copy of its lane's context. A connection is tidied only while no task of its lane is alive: done
at the end of one task, it would break a neighbour's iteration.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from asgiref.sync import ThreadSensitiveContext

from steady_queue.aio.tidiness import tidy_connections

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    _Order: TypeAlias = tuple[Future[Any], Callable[[], Any]]

#: The calls that a job has sent to threads. In its context, so that those of its child tasks are among them.
_calls: contextvars.ContextVar[set[Future[Any]]] = contextvars.ContextVar("steady_queue_calls")


class LaneThread(Executor):
    """One thread that tells each job of its calls, and knows whether it has been used since it was last tidied.

    A daemon, unlike those of the standard library: a call that never returns must not keep the interpreter alive.
    """

    def __init__(self, name: str) -> None:
        self.is_used = False
        self.is_closed = False
        self._name = name
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.is_closed:
            raise RuntimeError("the process that ran this task has stopped")
        self.is_used = True
        future = self._order(partial(fn, *args, **kwargs))
        _tell_job(future)
        return future

    def tidy(self) -> None:
        """Make the thread's connections fit for the next task."""
        self.is_used = False
        self._order(tidy_connections)

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Close the connections and let the thread go, without waiting for a call that is stuck."""
        self.is_closed = True
        if self._thread is not None:
            self._order(partial(tidy_connections, close=True))
            self._orders.put(None)

    def _order(self, call: Callable[[], Any]) -> Future[Any]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._orders.put((future, call))
        return future

    def _serve(self) -> None:
        while (order := self._orders.get()) is not None:
            _carry_out(*order)
            del order  # what a call holds must not live until the next one


def _carry_out(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


class OtherThreads(ThreadPoolExecutor):
    """The threads of `asyncio.to_thread` and the like, with the calls of each job told to it as well."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="steady-queue-other")
        self.calls: set[Future[Any]] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self.calls.add(future)
        future.add_done_callback(self.calls.discard)
        _tell_job(future)
        return future


def _tell_job(future: Future[Any]) -> None:
    calls = _calls.get(None)
    if calls is not None:
        calls.add(future)
        future.add_done_callback(calls.discard)


class OrmLane:
    """A thread, the context that leads to it, and how many tasks use it now."""

    def __init__(self, name: str) -> None:
        self.thread = LaneThread(name)
        self.sensitive = ThreadSensitiveContext(executor=self.thread)
        self.context = contextvars.Context()
        self.alive = 0

    def entered(self) -> None:
        """A task of this lane begins: called in its own context."""
        _calls.set(set())

    async def really_stopped(self) -> None:
        """Wait for the calls that the running job, cancelled meanwhile, has left behind in threads."""
        # A job that its process has abandoned is not waited for any longer.
        while not self.thread.is_closed and (calls := list(_calls.get(()))):
            with suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(future) for future in calls])

    def left(self) -> None:
        """A task of this lane has ended."""
        self.alive -= 1
        if self.alive == 0 and self.thread.is_used and not self.thread.is_closed:
            self.thread.tidy()


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
        return lane, lane.context.copy()

    def close(self) -> None:
        for lane in self.lanes:
            lane.thread.shutdown()
