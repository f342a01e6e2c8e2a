"""One ORM thread: it makes calls, one after another, and belongs to a task that has left something open on it."""

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


#: After so long a pause the thread polls its connections. To poll lets other threads run: done before every call, it
#: took 5 % more CPU for a query (measured).
PAUSE_SECONDS = 0.005
#: What a call is answered that comes too late.
STOPPED = "the process that ran this task has stopped"


class Order(NamedTuple):
    """A call that a thread is to make, for a session or, if it has none, for the pool."""

    future: Future[Any]
    call: Callable[[], Any]
    session: OrmSession | None
    #: When the call began to wait, by `monotonic()`; None if it has not waited.
    waits_since: float | None = None


class OrmThread:
    """One thread, its connections, and the session that holds it.

    A daemon, unlike those of the standard library: a call that never returns must not keep the interpreter alive.
    """

    def __init__(self, name: str, pool: OrmThreads) -> None:
        self.connections = ThreadConnections(order=self._order)
        self.holder: OrmSession | None = None
        self.sessions: set[OrmSession] = set()
        self.is_used = False
        self._idle_since = 0.0
        self._name = name
        self._pool = pool
        self._orders: SimpleQueue[Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, order: Order) -> None:
        if self._thread is None:
            self._start()
        self._orders.put(order)

    def order_release(self, session: OrmSession, *, is_late: bool = False) -> Future[Any]:
        """Roll back what the session has left open; `is_late` if nobody else reports that."""
        return self._order(partial(self._release, session, is_late=is_late))

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
            session = order.session
            if session is not None and (session.thread is not self or self.holder not in (None, session)):
                self._pool.move(order, self)
            elif order.future.set_running_or_notify_cancel():
                self._carry_out(order, session)
            del order, session  # what a call holds must not live until the next one
            # The order may have been the last to keep an iteration alive, whose cursor is closed with it.
            if self.holder is not None and not self.connections.is_held():
                self._pool.release(self)
            if self.holder is None and self._pool.waiting:
                self._pool.hand_over(self)
        while not self._orders.empty():
            if (order := self._orders.get()) is not None:
                fail(order, RuntimeError(STOPPED))

    def _carry_out(self, order: Order, session: OrmSession | None) -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            if self.holder is None and monotonic() - self._idle_since >= PAUSE_SECONDS:
                self.connections.replace_dead()
            result = order.call()
        except BaseException as raised:
            error = raised
        # Before the answer is known: what the task does next must find the thread held, or free.
        try:
            self._update_holder(session)
        except BaseException as raised:  # the driver's own; the call itself has ended
            error = error or raised
        self._idle_since = monotonic()
        if error is not None:
            order.future.set_exception(error)
            error = None  # its traceback names this frame: together they would live until they are collected
        else:
            order.future.set_result(result)

    def _update_holder(self, session: OrmSession | None) -> None:
        """Find out whether the call has left anything open, and whether its connections can still be used."""
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


def fail(order: Order, error: Exception) -> None:
    """Answer a call that is not made any more."""
    if order.future.set_running_or_notify_cancel():
        order.future.set_exception(error)
