"""ORM threads: a few threads that run the ORM calls of all async tasks.

Django sends every ORM call of async code to one thread for the whole process, so hundreds of tasks would queue behind
one slow query. Here asgiref finds this executor in the context of each task instead, and a task keeps one of the
threads, and so one connection, as long as it can.

A task holds its thread while it has a transaction or a cursor open there: writes of another task would join the
transaction, and be rolled back with it. Calls of other tasks go to a free thread, and those tasks stay there; while all
threads are held, they wait.
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
from steady_queue.aio.orm_threads.thread import STOPPED, OrmThread, ThreadCall, fail
from steady_queue.errors import OrmThreadTimeout
from steady_queue.events import OrmCallsWaiting

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steady_queue.events import Event, Events

#: How long a call waits before it is reported.
REPORT_SECONDS = 1.0
#: How long a connection that may not be kept (a CONN_MAX_AGE of 0) waits for the next task of its thread: otherwise
#: each of many short tasks would connect.
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
        self.waiting: list[ThreadCall] = []
        self._reported: set[OrmSession | None] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        #: The session of calls outside of any task.
        self._shared_session = OrmSession(lambda: name, self, self.threads[0])

    async def open(self) -> None:
        """Enter the threads' context, empty of everything else, once for the life of the process."""
        enter: Callable[[], Coroutine[Any, Any, Any]] = self.sensitive.__aenter__
        await self._loop.create_task(enter(), context=self.context)

    def begin(self, name: Callable[[], str]) -> tuple[OrmSession, contextvars.Context]:
        """Return a session for one more task, and the context to create the task with."""
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
        """End a session: its task has ended."""
        if session.calls is None:
            session.has_ended = True
            return
        with self.lock:  # a call that the task did not wait for may be moved to another thread at this moment
            session.has_ended = True
            thread = session.thread
            thread.sessions.discard(session)
        if self.is_closed:
            return
        if thread.holder is session:
            thread.request_release(session, is_late=True)
        if not thread.sessions and thread.is_used and self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._close_idle)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.is_closed:
            raise RuntimeError(STOPPED)
        session = session_variable.get(self._shared_session)
        if session.pool is not self:
            session = self._shared_session
        future: Future[Any] = Future()
        thread = session.thread
        thread.is_used = True
        session.add_call(future)
        thread.put(ThreadCall(future, partial(fn, *args, **kwargs), session))
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:
        """Close the connections and let the threads end, without waiting for calls that are stuck."""
        with self.lock:
            self.is_closed = True
            waiting, self.waiting = self.waiting, []
        for call in waiting:
            fail(call, RuntimeError(STOPPED))
        for timer in (self._watch, self._idle_timer):
            if timer is not None:
                timer.cancel()
        for thread in self.threads:
            thread.stop()

    # -- called by the threads ----------------------------------------------------------------------------------------

    def move(self, call: ThreadCall, thread: OrmThread) -> None:
        """Move a call whose session has another thread by now, or whose thread is held by another task."""
        session = call.session
        assert session is not None
        with self.lock:
            if self.is_closed:
                fail(call, RuntimeError(STOPPED))
                return
            if session.thread is thread:
                free = [other for other in self.threads if other.holder is None]
                if not free:
                    self._wait(call)
                    return
                _assign(session, min(free, key=lambda other: len(other.sessions)))
            target = session.thread
        target.put(call)

    def release(self, thread: OrmThread) -> None:
        """Make the thread free. It takes calls that wait after the one that it makes now."""
        with self.lock:
            thread.holder = None

    def assign_waiting(self, thread: OrmThread) -> None:
        """Assign to a free thread the calls of the task that waits longest. Of one task only: it may hold it."""
        with self.lock:
            session = self.waiting[0].session if self.waiting else None
            if session is None:
                return
            calls = [call for call in self.waiting if call.session is session]
            self.waiting = [call for call in self.waiting if call.session is not session]
            _assign(session, thread)
        for call in calls:
            thread.put(call)

    def report(self, event: Event) -> None:
        with suppress(RuntimeError):  # the loop is closed: there is no subscriber any more
            self._loop.call_soon_threadsafe(self._events.emit, event)

    def _wait(self, call: ThreadCall) -> None:
        is_first = not self.waiting
        self.waiting.append(call._replace(waits_since=call.waits_since or monotonic()))
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
            self.waiting = [call for call in self.waiting if not call.future.cancelled()]
            late = [call for call in self.waiting if _waits(call, now) >= timeout_seconds]
            self.waiting = [call for call in self.waiting if _waits(call, now) < timeout_seconds]
            self._reported &= {call.session for call in self.waiting}
            waiting = [call for call in self.waiting if _waits(call, now) >= REPORT_SECONDS]
            holders = sorted(thread.holder.name() for thread in self.threads if thread.holder is not None)
            is_anything_left = bool(self.waiting)
        for call in late:
            fail(call, OrmThreadTimeout(_timed_out(timeout_seconds, holders)))
        for call in waiting:
            self._report_waiting(call, now, holders)
        if is_anything_left:
            self._watch_waiting()

    def _close_idle(self) -> None:
        """Close the connections that may not be kept, on threads that no task uses."""
        self._idle_timer = None
        for thread in self.threads:
            if not thread.sessions and thread.is_used:
                thread.request_close_unless_kept()

    def _report_waiting(self, call: ThreadCall, now: float, holders: list[str]) -> None:
        session = call.session
        if session is not None and session not in self._reported:
            self._reported.add(session)
            event = OrmCallsWaiting(task=session.name(), seconds=_waits(call, now), holders=", ".join(holders))
            self._events.emit(event)


def _assign(session: OrmSession, thread: OrmThread) -> None:
    session.thread.sessions.discard(session)
    session.thread = thread
    thread.is_used = True
    if not session.has_ended:
        thread.sessions.add(session)


def _waits(call: ThreadCall, now: float) -> float:
    return now - (call.waits_since or now)


def _timed_out(seconds: float, holders: list[str]) -> str:
    return (
        f"waited {seconds:.0f} s for an ORM thread: all are held by tasks with an open transaction or cursor"
        f" ({', '.join(holders)}). Shorten their transactions, or raise orm_lanes"
    )
