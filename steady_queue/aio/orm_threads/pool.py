"""ORM threads: a few threads that run the ORM calls of all async tasks.

Django sends every ORM call of async code to one thread for the whole process, so hundreds of tasks would queue behind
one slow query. Here asgiref finds this executor in the context of each task instead, and a task keeps one of the
threads, and so one connection, as long as it can.

A thread with an open transaction or an open cursor belongs to the task that opened it: writes of another task would
join the transaction, and be rolled back with it. Calls of other tasks go to a thread that is free, and those tasks stay
there; while all threads are held, they wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from asgiref.sync import ThreadSensitiveContext

import steady_queue
from steady_queue.aio.orm_threads.session import OrmSession, session_variable
from steady_queue.aio.orm_threads.thread import STOPPED, Order, OrmThread, fail
from steady_queue.errors import OrmThreadTimeout
from steady_queue.events import OrmCallsWaiting

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steady_queue.events import Event, Events

#: After so many seconds a call that waits is reported.
REPORT_SECONDS = 1.0
#: So long a connection that may not be kept (a CONN_MAX_AGE of 0) waits for the next task of its thread: tasks that
#: come and go would connect again and again.
IDLE_SECONDS = 1.0


class OrmThreads(Executor):
    """The threads of a process. Tasks reach them through a copy of `context`."""

    def __init__(self, count: int, *, events: Events, name: str = "steady-queue-orm") -> None:
        self.lock = threading.Lock()
        self.threads = [OrmThread(f"{name}-{number}", self) for number in range(count)]
        self.context = contextvars.Context()
        self.sensitive = ThreadSensitiveContext(executor=self)
        self.is_closed = False
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._next = 0
        #: Calls that wait because all threads are held by other tasks; in the order of their arrival.
        self.waiting: list[Order] = []
        self._reported: set[OrmSession | None] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        #: The session of calls that are made outside of any task.
        self._nobody = OrmSession(lambda: name, self, self.threads[0])

    async def open(self) -> None:
        """Enter the threads' context, empty of everything else, once for the life of the process."""
        enter: Callable[[], Coroutine[Any, Any, Any]] = self.sensitive.__aenter__
        await self._loop.create_task(enter(), context=self.context)

    def begin(self, name: Callable[[], str]) -> tuple[OrmSession, contextvars.Context]:
        """A session for one more task, and the context to create the task with."""
        count = len(self.threads)
        self._next = (self._next + 1) % count
        thread = self.threads[self._next]
        if thread.holder is not None:
            others = (self.threads[(self._next + step) % count] for step in range(1, count))
            thread = next((other for other in others if other.holder is None), thread)
        session = OrmSession(name, self, thread)
        context = self.context.copy()
        context.run(session_variable.set, session)
        return session, context

    def end(self, session: OrmSession) -> None:
        """The task of this session has ended."""
        if session.calls is None:
            session.has_ended = True
            return
        with self.lock:  # a call that the task has left behind may be moved to another thread just now
            session.has_ended = True
            thread = session.thread
            thread.sessions.discard(session)
        if self.is_closed:
            return
        if thread.holder is session:
            thread.order_release(session, is_late=True)
        if not thread.sessions and thread.is_used and self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._close_idle)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.is_closed:
            raise RuntimeError(STOPPED)
        session = session_variable.get(self._nobody)
        if session.pool is not self:
            session = self._nobody
        future: Future[Any] = Future()
        thread = session.thread
        thread.is_used = True
        session.add_call(future)
        thread.put(Order(future, partial(fn, *args, **kwargs), session))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Close the connections and let the threads end, without waiting for calls that are stuck."""
        with self.lock:
            self.is_closed = True
            waiting, self.waiting = self.waiting, []
        for order in waiting:
            fail(order, RuntimeError(STOPPED))
        for timer in (self._watch, self._idle_timer):
            if timer is not None:
                timer.cancel()
        for thread in self.threads:
            thread.stop()

    # -- called by the threads ----------------------------------------------------------------------------------------

    def move(self, order: Order, thread: OrmThread) -> None:
        """Find another thread for a call whose session is elsewhere by now, or whose thread is held by another task."""
        session = order.session
        assert session is not None
        with self.lock:
            if self.is_closed:
                fail(order, RuntimeError(STOPPED))
                return
            if session.thread is thread:
                free = [other for other in self.threads if other.holder is None]
                if not free:
                    self._wait(order)
                    return
                _assign(session, min(free, key=lambda other: len(other.sessions)))
            target = session.thread
        target.put(order)

    def release(self, thread: OrmThread) -> None:
        """The thread is free again. It takes over calls that wait when it has answered the one that it makes."""
        with self.lock:
            thread.holder = None

    def hand_over(self, thread: OrmThread) -> None:
        """Give a free thread the calls of the task that waits longest. Not those of others: this one may hold it."""
        with self.lock:
            session = self.waiting[0].session if self.waiting else None
            if session is None:
                return
            orders = [order for order in self.waiting if order.session is session]
            self.waiting = [order for order in self.waiting if order.session is not session]
            _assign(session, thread)
        for order in orders:
            thread.put(order)

    def report(self, event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._events.emit, event)

    def _wait(self, order: Order) -> None:
        is_first = not self.waiting
        self.waiting.append(order._replace(waits_since=order.waits_since or monotonic()))
        if is_first:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._watch_waiting)

    # -- called by the event loop -------------------------------------------------------------------------------------

    def _watch_waiting(self) -> None:
        if self._watch is None and not self.is_closed:
            timeout_seconds = steady_queue.orm_thread_timeout.total_seconds()
            self._watch = self._loop.call_later(min(REPORT_SECONDS, timeout_seconds) / 4, self._look_at_waiting)

    def _look_at_waiting(self) -> None:
        """Report the calls that wait for long, and fail those that have waited too long."""
        self._watch = None
        now, timeout_seconds = monotonic(), steady_queue.orm_thread_timeout.total_seconds()
        with self.lock:
            self.waiting = [order for order in self.waiting if not order.future.cancelled()]
            late = [order for order in self.waiting if _waits(order, now) >= timeout_seconds]
            self.waiting = [order for order in self.waiting if _waits(order, now) < timeout_seconds]
            self._reported &= {order.session for order in self.waiting}
            waiting = [order for order in self.waiting if _waits(order, now) >= REPORT_SECONDS]
            holders = sorted(thread.holder.name() for thread in self.threads if thread.holder is not None)
            is_anything_left = bool(self.waiting)
        for order in late:
            fail(order, OrmThreadTimeout(_timed_out(timeout_seconds, holders)))
        for order in waiting:
            self._report_waiting(order, now, holders)
        if is_anything_left:
            self._watch_waiting()

    def _close_idle(self) -> None:
        """Close what may not be kept on threads that no task uses."""
        self._idle_timer = None
        for thread in self.threads:
            if not thread.sessions and thread.is_used:
                thread.order_close_unless_kept()

    def _report_waiting(self, order: Order, now: float, holders: list[str]) -> None:
        session = order.session
        if session is not None and session not in self._reported:
            self._reported.add(session)
            event = OrmCallsWaiting(task=session.name(), seconds=_waits(order, now), holders=", ".join(holders))
            self._events.emit(event)


def _assign(session: OrmSession, thread: OrmThread) -> None:
    session.thread.sessions.discard(session)
    session.thread = thread
    thread.is_used = True
    if not session.has_ended:
        thread.sessions.add(session)


def _waits(order: Order, now: float) -> float:
    return now - (order.waits_since or now)


def _timed_out(seconds: float, holders: list[str]) -> str:
    return (
        f"waited {seconds:.0f} s for an ORM thread: all are held by tasks with an open transaction or cursor"
        f" ({', '.join(holders)}). Shorten their transactions, or raise orm_lanes"
    )
