"""The transaction of a task that is settled in it: only the worker ends it.

To the task it is an `atomic` block. It begins with the first statement: a task that executes none needs no connection.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, Error, connections, transaction

from steady_queue.db.aliases import django_driver
from steady_queue.db.ending_statements import find_ending_statement
from steady_queue.errors import ConfigurationError, TransactionEndedByTask, TransactionLeftOpen
from steady_queue.store.drivers.django import classify_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: What Django resets when it connects, which may be in the middle of the block.
_STATE = ("in_atomic_block", "savepoint_ids", "atomic_blocks", "needs_rollback", "run_on_commit", "commit_on_exit")
#: On MySQL, where many statements commit, and no driver shows it: it exists as long as the transaction.
_MARKER = "steady_queue_task"
#: The states of psycopg's connections.
_IDLE, _IN_ERROR = 0, 3


class TaskTransaction:
    """An `atomic` block that refuses statements which would end it, and knows whether its commit was answered."""

    def __init__(self, alias: str, *, joins: bool = False) -> None:
        """With `joins` it may be part of a transaction of the caller, as in tests."""
        self.driver = django_driver(alias)
        self.connection: Any = connections[alias]
        self.has_begun = False
        #: Whether a commit was sent whose reply was lost.
        self.is_unknown = False
        #: The error of an `on_commit` callback, after the commit.
        self.callback_error: BaseException | None = None
        self._joins = joins
        self._is_nested = False
        self._is_beginning = False
        self._has_executed = False
        self._violation: TransactionEndedByTask | None = None
        self._depth = 0
        self._atomic = transaction.atomic(using=alias)

    @property
    def is_used(self) -> bool:
        """Whether there is anything to commit: a statement, or a callback that waits for the commit."""
        return self.has_begun or bool(self.connection.run_on_commit)

    def __enter__(self) -> TaskTransaction:
        connection = self.connection
        if self._joins and connection.in_atomic_block:
            self._is_nested = self.has_begun = True
            self._atomic.__enter__()
        else:
            if connection.in_atomic_block:
                raise TransactionEndedByTask(
                    "the task has an atomic block open: the block that completes a task must be the outermost one"
                )
            if self.driver.in_transaction:
                raise ConfigurationError(
                    f"a transactional task needs autocommit, which is off on the database {connection.alias!r}"
                )
            connection.in_atomic_block = connection.commit_on_exit = True
            connection.needs_rollback = False
            connection.atomic_blocks.append(self._atomic)
            vars(connection).update(ensure_connection=self._begin, temporary_connection=self._temporary_connection)
        self._depth = len(connection.savepoint_ids)
        connection.execute_wrappers.append(self._guard)
        return self

    def check(self) -> None:
        """Raise unless the transaction is still the one that was begun, and can be committed."""
        connection = self.connection
        if self._violation is not None:
            raise self._violation
        if connection.closed_in_transaction:
            raise TransactionEndedByTask("the task closed its connection, which rolled its transaction back")
        if connection.needs_rollback:
            raise TransactionEndedByTask(
                "the task's transaction is marked for rollback, by set_rollback(True) or by an error that the task"
                " caught: raise an exception to roll back, and catch errors of the database outside of an atomic block"
            )
        if len(connection.savepoint_ids) != self._depth:
            raise TransactionLeftOpen(connection.alias)
        if self.has_begun and _state_of(connection.connection) == _IN_ERROR:
            raise TransactionEndedByTask(
                "the task caught an error of the database, which had aborted its transaction: put the statement that"
                " may fail into an atomic block of its own"
            )
        if self.has_begun and not self._is_nested and connection.vendor == "mysql":
            self._check_marker()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection = self.connection
        with suppress(ValueError):  # a task that removes other wrappers than its own is to end all the same
            connection.execute_wrappers.remove(self._guard)
        self._restore_methods()
        del connection.savepoint_ids[self._depth :]  # of blocks that the task did not leave
        if not self.has_begun:
            self._leave_unbegun()
        elif self._is_nested:
            self._atomic.__exit__(kind, error, traceback)
        else:
            self._end(kind, error, traceback)

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection = self.connection
        # After the commit, not in `atomic`: an error in one would look like an error of the commit.
        callbacks, connection.run_on_commit = connection.run_on_commit, []
        connection.atomic_blocks = [self._atomic]
        try:
            self._atomic.__exit__(kind, error, traceback)
        except Error as failure:
            if kind is None:
                self.is_unknown = classify_error(failure, connection, lost_means_unknown=True).applied == "unknown"
            raise
        if kind is None and callbacks:
            connection.run_on_commit = callbacks
            try:
                connection.run_and_clear_commit_hooks()
            except BaseException as failure:
                self.callback_error = failure

    def _leave_unbegun(self) -> None:
        connection = self.connection
        connection.in_atomic_block = connection.needs_rollback = False
        connection.atomic_blocks = []
        connection.run_on_commit = []
        if connection.closed_in_transaction:
            connection.closed_in_transaction = False
            connection.connection = None

    def _begin(self) -> None:
        """Begin the transaction: Django calls this before it uses the connection for the first time in the block."""
        connection = self.connection
        if self._is_beginning:
            type(connection).ensure_connection(connection)
            return
        state = {name: getattr(connection, name) for name in _STATE}
        connection.in_atomic_block = False
        self._is_beginning = True
        try:
            connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
            self.driver.take_write_lock()
            if connection.vendor == "mysql":
                self._execute(connection.ops.savepoint_create_sql(_MARKER))
        except BaseException:
            connection.in_atomic_block = False
            connection.close()  # the next statement of the task begins again
            raise
        else:
            self.has_begun = True
            self._restore_methods()
        finally:
            self._is_beginning = False
            for name, value in state.items():
                setattr(connection, name, value)

    @contextmanager
    def _temporary_connection(self) -> Iterator[Any]:
        """Django's own would close a connection that it has opened, and so end the transaction that begins with it."""
        self._begin()
        with self.connection.cursor() as cursor:
            yield cursor

    def _restore_methods(self) -> None:
        for name in ("ensure_connection", "temporary_connection"):
            vars(self.connection).pop(name, None)

    def _guard(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Called by Django instead of executing a statement."""
        if self._is_beginning:
            return execute(sql, params, many, context)
        connection = self.connection
        text = sql if isinstance(sql, str) else _text_of(sql, connection.connection)
        if (ending := find_ending_statement(text, connection.vendor)) is not None:
            self._violation = TransactionEndedByTask(
                f"a transactional task may not execute {ending.strip()[:60]!r}: the worker commits its transaction"
                " after the task, and an exception of the task rolls it back"
            )
            raise self._violation
        if self._has_executed and not self._is_nested and _state_of(connection.connection) == _IDLE:
            self._violation = _ended()
            raise self._violation
        try:
            return execute(sql, params, many, context)
        finally:
            self._has_executed = True

    def _check_marker(self) -> None:
        try:
            self._execute(self.connection.ops.savepoint_commit_sql(_MARKER))
        except DatabaseError as error:
            raise _ended() from error

    def _execute(self, text: str) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(text)


def _ended() -> TransactionEndedByTask:
    return TransactionEndedByTask(
        "the transaction of the task has ended before the task: it executed a statement that commits, or committed or"
        " rolled back on the driver's connection, or the server rolled it back"
    )


def _state_of(connection: Any) -> int | None:
    """The state of the driver's transaction, as psycopg numbers it; None if the driver does not know."""
    if hasattr(connection, "pgconn"):  # psycopg 3
        return int(connection.pgconn.transaction_status)
    if hasattr(connection, "get_transaction_status"):  # psycopg 2
        return int(connection.get_transaction_status())
    in_transaction = getattr(connection, "in_transaction", None)  # sqlite3
    return None if in_transaction is None else 2 if in_transaction else _IDLE


def _text_of(sql: Any, connection: Any) -> str:
    """The text of a statement that is bytes, or composed with psycopg.sql."""
    if isinstance(sql, (bytes, bytearray)):
        return sql.decode(errors="replace")
    return str(sql.as_string(connection)) if hasattr(sql, "as_string") else str(sql)
