"""Guards a transaction that a task may not end: refuses statements that would, and notices that it has ended anyway.

The marker is the second line of defence: it exists as long as the transaction. A task may commit in a stored procedure,
or on the connection of the driver, and begin another transaction.
"""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError, Error, connections, transaction

from steady_queue.db.ending_statements import find_ending_statement
from steady_queue.errors import TransactionEndedByTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Why a transactional task may not end its transaction.
WORKER_COMMITS = (
    "the worker commits the transaction of a transactional task after the task, and an exception of the task rolls it"
    " back"
)
#: The states of psycopg's connections.
IDLE, ACTIVE, IN_TRANSACTION, IN_ERROR = range(4)
_MARKER, _SET = "steady_queue_task", "set"
#: How to set the marker, and how to ask for it. On PostgreSQL a savepoint would slow down all writes after it.
_STATEMENTS = {
    "postgresql": (f"SET LOCAL steady_queue.task = '{_SET}'", "SELECT current_setting('steady_queue.task', true)"),
    "mysql": (f"SAVEPOINT {_MARKER}", f"RELEASE SAVEPOINT {_MARKER}"),
    "sqlite": (f"SAVEPOINT {_MARKER}", f"RELEASE SAVEPOINT {_MARKER}"),
}
#: MySQL: there is no such savepoint.
_NO_SAVEPOINT = 1305


class TransactionGuard:
    """Guards the transaction of a connection of Django."""

    def __init__(self, connection: Any, refusal: str = WORKER_COMMITS) -> None:
        """`refusal` says why a statement is refused."""
        self.connection = connection
        #: The error of a statement that was refused, or of a transaction that has ended. The task may have caught it.
        self.violation: TransactionEndedByTask | None = None
        #: Whether the transaction is known to have ended.
        self.has_ended = False
        self._refusal = refusal
        self._is_marked = False
        #: After an error the server may have rolled back by itself.
        self._has_failed = False

    def mark(self) -> None:
        """Mark the transaction, as its first statement."""
        if (statements := _STATEMENTS.get(self.connection.vendor)) is not None:
            self._execute(statements[0])
            self._is_marked = True

    def execute(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Execute a statement for Django, or refuse it."""
        connection = self.connection
        text = sql if isinstance(sql, str) else _text_of(sql, connection.connection)
        if (ending := find_ending_statement(text, connection.vendor)) is not None:
            self.violation = TransactionEndedByTask(f"{ending[:60]!r} was refused: {self._refusal}")
            raise self.violation
        if self._is_marked and state_of(connection.connection) == IDLE:
            raise self._ended()
        try:
            return execute(sql, params, many, context)
        except BaseException:
            self._has_failed = True
            raise

    def check(self) -> None:
        """Raise if a statement was refused, or the transaction is not the one that was marked."""
        if self.violation is None and self._is_ended():
            raise self._ended()
        if self.violation is not None:
            raise self.violation
        self._is_marked = False

    def find_violation(self) -> TransactionEndedByTask | None:
        """Return the error of a refused statement, or of a transaction that has ended."""
        with suppress(Error):  # of a connection that was lost
            if not self.has_ended and self._is_ended():
                self._ended()
        return self.violation

    def find_end(self) -> TransactionEndedByTask | None:
        """Return the error of a task that raised another one, if the transaction has ended before it did."""
        return None if self.violation is not None or self._has_failed else self.find_violation()

    def _is_ended(self) -> bool:
        if not self._is_marked or self.connection.connection is None or self.connection.closed_in_transaction:
            return False
        state = state_of(self.connection.connection)
        if state not in (IN_TRANSACTION, None):
            return state == IDLE
        try:
            return bool(self._execute(_STATEMENTS[self.connection.vendor][1]) != _SET)
        except DatabaseError as error:
            if self.connection.vendor == "mysql" and error.args[:1] != (_NO_SAVEPOINT,):
                raise
            return True

    def _execute(self, text: str) -> Any:
        """Execute a statement which neither this guard nor the task sees."""
        connection = self.connection
        with connection.wrap_database_errors, closing(connection.create_cursor()) as cursor:
            cursor.execute(text)
            return cursor.fetchone()[0] if text.startswith("SELECT") else _SET

    def _ended(self) -> TransactionEndedByTask:
        self.has_ended = True
        self.violation = TransactionEndedByTask(
            "the transaction of the task has ended before the task: it executed a statement that commits, or committed"
            " or rolled back on the driver's connection, or the server rolled it back. What was committed stays"
        )
        return self.violation


@contextmanager
def guarded(alias: str, refusal: str = WORKER_COMMITS) -> Iterator[TransactionGuard]:
    """An atomic block, in which no statement may end the transaction; the caller checks it before the end."""
    connection = connections[alias]
    is_outermost = not connection.in_atomic_block
    guard = TransactionGuard(connection, refusal)
    with transaction.atomic(using=alias):
        if is_outermost:
            guard.mark()
        with connection.execute_wrapper(guard.execute):
            yield guard


def state_of(connection: Any) -> int | None:
    """The state of the driver's transaction, as psycopg numbers it; None if the driver does not know."""
    if hasattr(connection, "pgconn"):  # psycopg 3
        return int(connection.pgconn.transaction_status)
    if hasattr(connection, "get_transaction_status"):  # psycopg 2
        return int(connection.get_transaction_status())
    in_transaction = getattr(connection, "in_transaction", None)  # sqlite3
    return None if in_transaction is None else IN_TRANSACTION if in_transaction else IDLE


def _text_of(sql: Any, connection: Any) -> str:
    """The text of a statement that is bytes, or composed with psycopg.sql."""
    if isinstance(sql, (bytes, bytearray)):
        return sql.decode(errors="replace")
    return str(sql.as_string(connection)) if hasattr(sql, "as_string") else str(sql)
