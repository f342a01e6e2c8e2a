"""One ORM thread: makes calls, one after another. A task that has left a transaction or a cursor open holds it."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.aio.orm_threads.connections import ThreadConnections
from steady_queue.events import TransactionRolledBack

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.orm_threads.pool import OrmThreads
    from steady_queue.aio.orm_threads.session import OrmSession


#: After a pause of this length the thread polls its connections. Polling releases the GIL: before every call, it took
#: 5 % more CPU for a query (measured).
PAUSE_SECONDS = 0.005
#: The error of a call that comes too late.
STOPPED = "the process that ran this task has stopped"


class ThreadCall(NamedTuple):
    """A call that a thread is to make, for a session or, if it has none, for the pool."""

    future: Future[Any]
    function: Callable[[], Any]
    session: OrmSession | None
    #: When the call began to wait, by `monotonic()`; None if it has not waited.
    waits_since: float | None = None


class OrmThread:
    """One thread, its connections, and the session that holds it.

    A daemon, unlike those of the standard library: a call that never returns must not keep the interpreter alive.
    """

    def __init__(self, name: str, pool: OrmThreads) -> None:
        self.connections = ThreadConnections(request=self._request)
        self.holder: OrmSession | None = None
        self.sessions: set[OrmSession] = set()
        self.is_used = False
        self._idle_since = 0.0
        self._name = name
        self._pool = pool
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def ident(self) -> int | None:
        """The identifier of the thread, once it has started."""
        return None if self._thread is None else self._thread.ident

    def put(self, call: ThreadCall) -> None:
        if self._thread is None:
            self._start()
        self._calls.put(call)

    def request_release(self, session: OrmSession, *, is_late: bool = False) -> Future[Any]:
        """Roll back what the session has left open; `is_late` if that is to be reported by an event."""
        return self._request(partial(self._release, session, is_late=is_late))

    def request_close_unless_kept(self) -> None:
        self.is_used = False
        self._request(self._close_unless_kept)

    def stop(self) -> None:
        """Close the connections and let the thread end, without waiting for a call that is stuck."""
        if self._thread is not None:
            self._request(self.connections.close)
            self._calls.put(None)

    def _request(self, function: Callable[[], Any]) -> Future[Any]:
        """Have the thread make a call for the pool. May be used in any thread."""
        call = ThreadCall(Future(), function, None)
        self.put(call)
        return call.future

    def _start(self) -> None:
        with self._pool.lock:  # other threads may move calls to this one at the same time as the event loop
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        self.connections.watch()
        while (call := self._calls.get()) is not None:
            session = call.session
            if session is not None and (session.thread is not self or self.holder not in (None, session)):
                self._pool.move(call, self)
            elif call.future.set_running_or_notify_cancel():
                self._execute(call, session)
            del call, session  # the objects of a call must not live until the next one
            # The call may have held the last reference to an iteration, whose cursor is closed with it.
            if self.holder is not None and not self.connections.is_held():
                self._pool.release(self)
            if self.holder is None and self._pool.waiting:
                self._pool.assign_waiting(self)
        while not self._calls.empty():
            if (call := self._calls.get()) is not None:
                fail(call, RuntimeError(STOPPED))

    def _execute(self, call: ThreadCall, session: OrmSession | None) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            if self.holder is None and monotonic() - self._idle_since >= PAUSE_SECONDS:
                self.connections.replace_dead()
            result = call.function()
        except BaseException as raised:
            error = raised
        # Before the result is set: the next call of the task must find the thread held, or free.
        try:
            self._update_holder(session)
        except BaseException as raised:  # of the driver; the call itself has ended
            error = error or raised
        self._idle_since = monotonic()
        if error is not None:
            call.future.set_exception(error)
            error = None  # its traceback names this frame: together they would live until they are collected
        else:
            call.future.set_result(result)

    def _update_holder(self, session: OrmSession | None) -> None:
        """Find out whether the call has left anything open, and replace connections that cannot be used any more."""
        if self.connections.is_held():
            if self.holder is None:
                self._hold(session)
        else:
            self.connections.replace_broken()
            if self.holder is not None:
                self._pool.release(self)

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
            try:
                self.connections.release()
                self.connections.replace_broken()
            finally:
                self._pool.release(self)

    def _close_unless_kept(self) -> None:
        if self.holder is None:
            self.connections.close_unless_kept()


def fail(call: ThreadCall, error: Exception) -> None:
    """Fail a call that is not made any more."""
    if call.future.set_running_or_notify_cancel():
        call.future.set_exception(error)
