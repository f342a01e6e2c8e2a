"""The database connections that tasks use in one thread: which a task must keep, and which must be replaced.

A connection with an open transaction or an open cursor belongs to the task that opened it. One on which an error
occurred is tested, and closed if it is dead, so that the next use connects again. After a pause, a poll of its socket
shows, without a query, whether the server has closed it.

Django signals each connection that a thread opens, so this module keeps its own list: asking Django for all connections
of the thread takes longer than a small task.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.signals import connection_created

from steady_queue.aio.orm_threads.open_cursors import OpenCursors

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.backends.base.base import BaseDatabaseWrapper

#: Seconds between two health checks of a connection whose database has CONN_HEALTH_CHECKS.
HEALTH_CHECK_SECONDS = 1.0

_thread = threading.local()


def thread_connections() -> ThreadConnections:
    """Return the connections of the running thread."""
    known: ThreadConnections | None = getattr(_thread, "connections", None)
    if known is None:
        known = ThreadConnections()
        known.watch()
    return known


class ThreadConnections:
    """The connections of one thread, used by it alone."""

    def __init__(self, *, request: Callable[[Callable[[], None]], object] | None = None) -> None:
        """`request` has the thread make a call. Without it, one task uses the thread alone and may keep its cursors."""
        self._connections: list[_Connection] = []
        self._request = request

    def watch(self) -> None:
        """Add the connections of the running thread, and those that it opens from now on."""
        _thread.connections = self
        # Before they connect: the first use of a connection may be an iteration, whose cursor must be known.
        for alias in connections:
            with suppress(Exception):  # the task that uses such a database gets the error
                self._add(connections[alias])

    def opened(self, wrapper: BaseDatabaseWrapper) -> None:
        """Add or update a connection that Django has opened in this thread."""
        for connection in self._connections:
            if connection.wrapper is wrapper:
                connection.connected()
                return
        # Another one, made with `connection.copy()` for example, is the task's own: no other task can use it.
        if wrapper.alias in connections and connections[wrapper.alias] is wrapper:
            self._add(wrapper)

    def open_transaction(self, besides: str | None = None) -> str | None:
        """Return the alias of a database, not `besides`, with an open transaction that a task should have ended."""
        return next(
            (
                connection.wrapper.alias
                for connection in self._connections
                if connection.wrapper.alias != besides and connection.has_open_transaction()
            ),
            None,
        )

    def is_held(self) -> bool:
        """Return whether a transaction or a cursor is open. Runs after every ORM call, so it must cost very little."""
        for connection in self._connections:
            if connection.is_in_transaction() or (connection.cursors is not None and connection.cursors.are_open()):
                return True
        return False

    def replace_broken(self) -> None:
        """Close connections that are broken, or older than CONN_MAX_AGE. Called while nothing is held."""
        for connection in self._connections:
            if connection.wrapper.errors_occurred or connection.has_max_age:
                connection.close_if_broken_or_expired()
            if connection.wrapper.health_check_enabled:
                connection.renew_health_check()

    def replace_dead(self) -> None:
        """Close connections that the server has closed since the last call. Called while nothing is held."""
        for connection in self._connections:
            if connection.wrapper.connection is not None and connection.poll is not None and connection.poll(0):
                connection.close_if_dead()

    def release(self) -> None:
        """Roll back open transactions and close open cursors: their task has ended."""
        for connection in self._connections:
            if connection.cursors is not None:
                connection.cursors.close()
            if connection.is_in_transaction():
                _roll_back(connection.wrapper)

    def close_unless_kept(self) -> None:
        """No task uses the thread: close the connections that may not be kept (a CONN_MAX_AGE of 0) or cannot be."""
        for connection in self._connections:
            if connection.wrapper.connection is not None:
                with suppress(DatabaseError, InterfaceError):
                    connection.wrapper.close_if_unusable_or_obsolete()

    def close(self) -> None:
        """Close all connections: the thread ends."""
        self.release()
        for connection in self._connections:
            _close(connection.wrapper)

    def _add(self, wrapper: BaseDatabaseWrapper) -> None:
        self._connections.append(_Connection(wrapper, self._request))


class _Connection:
    """What is known of one connection of the thread, open or not."""

    def __init__(self, wrapper: BaseDatabaseWrapper, request: Callable[[Callable[[], None]], object] | None) -> None:
        self.wrapper: Any = wrapper  # its stubs do not know of health checks
        self.cursors = None if request is None else OpenCursors(wrapper, request)
        #: A maximum age of 0 means "until the task ends" to Django: `close_unless_kept` sees to that.
        self.has_max_age = bool(wrapper.settings_dict["CONN_MAX_AGE"])
        self._has_autocommit = bool(wrapper.settings_dict["AUTOCOMMIT"])
        self.connected()

    def connected(self) -> None:
        """Examine a connection that was just opened, perhaps not for the first time."""
        self._examined = self.wrapper.connection
        self.poll = _poll_of(self.wrapper.connection)
        self._driver_is_in_transaction = _transaction_state_of(self.wrapper.connection)
        self._checked_at = monotonic()

    def is_in_transaction(self) -> bool:
        wrapper = self.wrapper
        if wrapper.in_atomic_block:
            return True
        if wrapper.connection is None:
            return False
        if wrapper.connection is not self._examined:  # no signal: another receiver of Django's signal has failed
            self.connected()
        state = self._driver_is_in_transaction
        if wrapper.autocommit:
            return state is not None and state()  # begun by hand
        # Where the settings switch autocommit off, that alone says nothing.
        return self._has_autocommit or state is None or state()

    def has_open_transaction(self) -> bool:
        """Return whether a task that ends now has left a transaction open. Without autocommit, Django rolls back."""
        return self.wrapper.in_atomic_block or (self._has_autocommit and self.is_in_transaction())

    def close_if_broken_or_expired(self) -> None:
        wrapper = self.wrapper
        if wrapper.connection is None:
            return
        if wrapper.errors_occurred:
            if wrapper.is_usable():
                wrapper.errors_occurred = False
            else:
                self._close()
        elif wrapper.close_at is not None and monotonic() >= wrapper.close_at:
            self._close()

    def close_if_dead(self) -> None:
        """Close a connection whose server has sent data without a query: mostly because it has closed it."""
        if not self.wrapper.is_usable():
            self._close()

    def renew_health_check(self) -> None:
        """Let Django check the connection before the next query, if it has not done so lately."""
        now = monotonic()
        if now - self._checked_at >= HEALTH_CHECK_SECONDS:
            self._checked_at = now
            self.wrapper.health_check_done = False

    def _close(self) -> None:
        _close(self.wrapper)


def _roll_back(wrapper: Any) -> None:
    """Roll back a transaction whose `atomic` blocks can no longer be exited; the next use connects again."""
    wrapper.in_atomic_block = False
    wrapper.savepoint_ids = []
    wrapper.needs_rollback = False
    wrapper.run_on_commit = []
    wrapper.atomic_blocks = []
    if not wrapper.closed_in_transaction:
        with suppress(Exception):  # the connection is dropped in any case
            wrapper.rollback()
    _close(wrapper)


def _close(wrapper: Any) -> None:
    """Close the connection, and forget it if that fails: the thread must be able to continue."""
    with suppress(Exception):
        wrapper.close()
    if wrapper.connection is not None:
        wrapper.closed_in_transaction = False
        wrapper.connection = None


def _poll_of(connection: Any) -> Callable[[int], list[tuple[int, int]]] | None:
    """Return a function that polls the connection's socket for data from the server; None if it has no socket."""
    try:
        descriptor = connection.fileno()
    except Exception:  # SQLite has none; each other driver has its own error for a connection that is closed already
        return None
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLHUP | select.POLLERR)
    return poll.poll


def _transaction_state_of(connection: Any) -> Callable[[], bool] | None:
    """Return a function that returns whether the driver is in a transaction, even one that Django did not begin."""
    if hasattr(connection, "pgconn"):  # psycopg 3; 0 is idle, 4 is a connection that is lost
        return lambda: connection.pgconn.transaction_status not in (0, 4)
    if hasattr(connection, "get_transaction_status"):  # psycopg 2
        return lambda: connection.get_transaction_status() not in (0, 4)
    if hasattr(connection, "in_transaction"):
        return partial(_is_sqlite_in_transaction, connection)
    return None  # mysqlclient has no such attribute


def _is_sqlite_in_transaction(connection: Any) -> bool:
    with suppress(Exception):  # a connection that was closed without Django's knowledge
        return bool(connection.in_transaction)
    return False


def _connected(sender: object, connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    known: ThreadConnections | None = getattr(_thread, "connections", None)
    if known is not None:
        known.opened(connection)


connection_created.connect(_connected, dispatch_uid="steady_queue.thread_connections")
