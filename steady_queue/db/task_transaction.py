"""The transaction of a task that is settled in it: only the worker ends it.

To the task it is an `atomic` block. It begins with the first statement: a task that executes none needs no connection.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import Error, connections, transaction

from steady_queue.db.aliases import django_driver
from steady_queue.db.transaction_guard import IN_ERROR, TransactionGuard, state_of
from steady_queue.errors import ConfigurationError, TransactionEndedByTask, TransactionLeftOpen
from steady_queue.store.drivers.django import classify_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

#: What Django resets when it connects, which may be in the middle of the block.
_STATE = ("in_atomic_block", "savepoint_ids", "atomic_blocks", "needs_rollback", "run_on_commit", "commit_on_exit")


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
        #: The connection of the driver that was open already; Django has none until the transaction begins.
        self._kept: Any = None
        self._is_nested = False
        self._is_beginning = False
        self._guard = TransactionGuard(self.connection)
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
            # What the task would execute on the driver's connection before the begin would be committed at once.
            self._kept, connection.connection = connection.connection, None
            vars(connection).update(ensure_connection=self._begin, temporary_connection=self._temporary_connection)
        self._depth = len(connection.savepoint_ids)
        connection.execute_wrappers.append(self._execute)
        return self

    def check(self) -> None:
        """Raise unless the transaction is still the one that was begun, and can be committed."""
        connection = self.connection
        if self._guard.violation is not None:
            raise self._guard.violation
        if connection.closed_in_transaction:
            raise TransactionEndedByTask("the task closed its connection, which rolled its transaction back")
        if connection.needs_rollback:
            raise TransactionEndedByTask(
                "the task's transaction is marked for rollback, by set_rollback(True) or by an error that the task"
                " caught: raise an exception to roll back, and catch errors of the database outside of an atomic block"
            )
        if len(connection.savepoint_ids) != self._depth:
            raise TransactionLeftOpen(connection.alias)
        if self.has_begun and state_of(connection.connection) == IN_ERROR:
            raise TransactionEndedByTask(
                "the task caught an error of the database, which had aborted its transaction: put the statement that"
                " may fail into an atomic block of its own"
            )
        self._guard.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection = self.connection
        with suppress(ValueError):  # a task that removes other wrappers than its own is to end all the same
            connection.execute_wrappers.remove(self._execute)
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
        # Before the rollback: a task that has committed part of its work must not look as if it had failed only.
        ended = self._guard.find_end() if isinstance(error, Exception) else None
        try:
            self._atomic.__exit__(kind, error, traceback)
        except Error as failure:
            if kind is None:
                self.is_unknown = classify_error(failure, connection, lost_means_unknown=True).applied == "unknown"
            raise
        if ended is not None:
            raise ended from error
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
        self._restore_connection()

    def _begin(self) -> None:
        """Begin the transaction: Django calls this before it uses the connection for the first time in the block."""
        connection = self.connection
        if self._is_beginning:
            type(connection).ensure_connection(connection)
            return
        self._restore_connection()
        state = {name: getattr(connection, name) for name in _STATE}
        connection.in_atomic_block = False
        self._is_beginning = True
        try:
            connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
            self.driver.take_write_lock()
            self._guard.mark()
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

    def _restore_connection(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None and self.connection.connection is None:
            self.connection.connection = kept
        elif kept is not None:  # the task has called `connect()`
            kept.close()

    def _restore_methods(self) -> None:
        for name in ("ensure_connection", "temporary_connection"):
            vars(self.connection).pop(name, None)

    def _execute(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Called by Django instead of executing a statement."""
        run = execute if self._is_beginning else partial(self._guard.execute, execute)
        return run(sql, params, many, context)
