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
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import ThreadSensitiveContext

import steady_queue
from steady_queue.aio.thread_connections import ThreadConnections
from steady_queue.errors import OrmThreadTimeout
from steady_queue.events import OrmCallsWaiting, TransactionRolledBack

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from steady_queue.events import Events

#: After so many seconds a call that waits is reported.
REPORT_SECONDS = 1.0


class OrmSession:
    """One task that may use the threads: its thread, its calls under way, and whether it has ended."""

    __slots__ = ("calls", "has_ended", "name", "pool", "thread")

    def __init__(self, name: Callable[[], str], pool: OrmThreads, thread: OrmThread) -> None:
        self.name = name
        self.pool = pool
        #: Changed by its thread only, or while its calls wait.
        self.thread = thread
        #: None before the first call: most tasks make none, and pay nothing for it.
        self.calls: set[Future[Any]] | None = None
        self.has_ended = False

    @property
    def is_holder(self) -> bool:
        """Whether the task has a transaction or a cursor open."""
        return self.thread.holder is self

    @property
    def open_transaction(self) -> str | None:
        """The alias of the database on which the task has a transaction open."""
        return self.thread.connections.open_transaction() if self.is_holder else None

    def add_call(self, future: Future[Any]) -> None:
        if self.calls is None:
            self.calls = set()
            if not self.has_ended:
                self.thread.sessions.add(self)
        self.calls.add(future)
        future.add_done_callback(self.calls.discard)

    async def calls_ended(self) -> None:
        """Wait for the calls that the task, cancelled meanwhile, has left behind in threads."""
        # A task that its process has abandoned is not waited for any longer.
        while not self.pool.is_closed and (calls := list(self.calls or ())):
            with suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(future) for future in calls])

    async def release_thread(self) -> None:
        """Roll back what the task has left open, so that others can use its thread. The task makes no more calls."""
        if not self.is_holder or self.pool.is_closed:
            return
        released = asyncio.wrap_future(self.thread.order_release(self))
        # A call that was left behind may never end: the thread releases itself after it.
        while not released.done() and not self.calls and not self.pool.is_closed:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([released])


#: In the context of a task, so that the calls of its child tasks are its own.
_session: contextvars.ContextVar[OrmSession] = contextvars.ContextVar("steady_queue_orm_session")


def current_session() -> OrmSession | None:
    """The session of the running task, if it has one."""
    return _session.get(None)


class Order(NamedTuple):
    """A call that a thread is to make, for a session or, if it has none, for the pool."""

    future: Future[Any]
    call: Callable[[], Any]
    session: OrmSession | None
    waits_since: float | None = None


class OrmThread:
    """One thread, its connections, and the session that holds it.

    A daemon, unlike those of the standard library: a call that never returns must not keep the interpreter alive.
    """

    def __init__(self, name: str, pool: OrmThreads) -> None:
        self.connections = ThreadConnections(cursor_closed=self._cursor_closed)
        self.holder: OrmSession | None = None
        self.sessions: set[OrmSession] = set()
        self.is_used = False
        self._name = name
        self._pool = pool
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, order: Order) -> None:
        if self._thread is None:
            self._start()
        self._orders.put(order)

    def order_release(self, session: OrmSession) -> Future[Any]:
        """Roll back what the session has left open."""
        return self._order(partial(self._release, session))

    def order_close_unless_kept(self) -> None:
        self.is_used = False
        self._order(self._close_unless_kept)

    def stop(self) -> None:
        """Close the connections and let the thread end, without waiting for a call that is stuck."""
        if self._thread is not None:
            self._order(self.connections.close)
            self._orders.put(None)

    def _order(self, call: Callable[[], Any]) -> Future[Any]:
        order = Order(Future(), call, None)
        self.put(order)
        return order.future

    def _start(self) -> None:
        with self._pool.lock:  # threads may move calls to this one while the event loop does
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        self.connections.watch()
        while (order := self._orders.get()) is not None:
            self._take(order)
            del order  # what a call holds must not live until the next one

    def _take(self, order: Order) -> None:
        session = order.session
        if session is not None and (session.thread is not self or self.holder not in (None, session)):
            self._pool.move(order, self)
        elif order.future.set_running_or_notify_cancel():
            self._carry_out(order, session)

    def _carry_out(self, order: Order, session: OrmSession | None) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            if self.holder is None:
                self.connections.replace_dead()
            result = order.call()
        except BaseException as raised:
            error = raised
        # Before the answer is known: what the task does next must find the thread held, or free.
        try:
            self._look(session)
        except BaseException as raised:  # the driver's own; the call itself has ended
            error = error or raised
        if error is not None:
            order.future.set_exception(error)
            error = None  # its traceback names this frame: together they would live until they are collected
        else:
            order.future.set_result(result)

    def _look(self, session: OrmSession | None) -> None:
        """Find out whether the call has left anything open, and whether its connections can still be used."""
        if self.connections.is_held():
            if self.holder is None:
                self._hold(session)
        elif self.holder is not None:
            self._pool.release(self)
        else:
            self.connections.replace_broken()

    def _hold(self, session: OrmSession | None) -> None:
        self.holder = session
        if session is None or session.has_ended:
            self._release(session, is_late=True)
        elif not self.connections.is_held():  # a cursor was closed in another thread just now
            self._pool.release(self)

    def _release(self, session: OrmSession | None, *, is_late: bool = False) -> None:
        if self.holder is session:
            if is_late and session is not None and (alias := self.connections.open_transaction()) is not None:
                self._pool.report(TransactionRolledBack(task=session.name(), database=alias))
            self.connections.release()
            self._pool.release(self)

    def _close_unless_kept(self) -> None:
        if self.holder is None:
            self.connections.close_unless_kept()

    def _cursor_closed(self) -> None:
        if self.holder is not None:
            self._order(lambda: None)


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
        self._waiting: list[Order] = []
        self._reported: set[OrmSession] = set()
        self._watch: asyncio.TimerHandle | None = None
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
        context.run(_session.set, session)
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
            thread.order_release(session)
        if not thread.sessions and thread.is_used:
            thread.order_close_unless_kept()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.is_closed:
            raise RuntimeError("the process that ran this task has stopped")
        session = _session.get(self._nobody)
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
            waiting, self._waiting = self._waiting, []
        for order in waiting:
            _fail(order, RuntimeError("the process that ran this task has stopped"))
        if self._watch is not None:
            self._watch.cancel()
        for thread in self.threads:
            thread.stop()

    # -- called by the threads ----------------------------------------------------------------------------------------

    def move(self, order: Order, thread: OrmThread) -> None:
        """Find another thread for a call whose session is elsewhere by now, or whose thread is held by another task."""
        session = order.session
        assert session is not None
        with self.lock:
            if session.thread is thread:
                free = [other for other in self.threads if other.holder is None]
                if not free:
                    self._wait(order)
                    return
                _assign(session, min(free, key=lambda other: len(other.sessions)))
            target = session.thread
        target.put(order)

    def release(self, thread: OrmThread) -> None:
        """The thread is free again: it makes the calls that wait."""
        with self.lock:
            thread.holder = None
            waiting, self._waiting = self._waiting, []
            for order in waiting:
                if order.session is not None:
                    _assign(order.session, thread)
        for order in waiting:
            thread.put(order)

    def report(self, event: TransactionRolledBack | OrmCallsWaiting) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._events.tell, event)

    def _wait(self, order: Order) -> None:
        self._waiting.append(order._replace(waits_since=order.waits_since or monotonic()))
        with suppress(RuntimeError):
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
            late = [order for order in self._waiting if _waits(order, now) >= timeout_seconds]
            self._waiting = [order for order in self._waiting if _waits(order, now) < timeout_seconds]
            waiting = [order for order in self._waiting if _waits(order, now) >= REPORT_SECONDS]
            holders = sorted(thread.holder.name() for thread in self.threads if thread.holder is not None)
            is_anything_left = bool(self._waiting)
        for order in late:
            _fail(order, OrmThreadTimeout(_timed_out(timeout_seconds, holders)))
        for order in waiting:
            self._report_waiting(order, now, holders)
        if is_anything_left:
            self._watch_waiting()
        else:
            self._reported.clear()

    def _report_waiting(self, order: Order, now: float, holders: list[str]) -> None:
        session = order.session
        if session is not None and session not in self._reported:
            self._reported.add(session)
            event = OrmCallsWaiting(task=session.name(), seconds=_waits(order, now), holders=", ".join(holders))
            self._events.tell(event)


def _assign(session: OrmSession, thread: OrmThread) -> None:
    session.thread.sessions.discard(session)
    session.thread = thread
    thread.is_used = True
    if not session.has_ended:
        thread.sessions.add(session)


def _waits(order: Order, now: float) -> float:
    return now - (order.waits_since or now)


def _fail(order: Order, error: Exception) -> None:
    if order.future.set_running_or_notify_cancel():
        order.future.set_exception(error)


def _timed_out(seconds: float, holders: list[str]) -> str:
    return (
        f"waited {seconds:.0f} s for an ORM thread: all are held by tasks with an open transaction or cursor"
        f" ({', '.join(holders)}). Shorten their transactions, or raise orm_lanes"
    )
