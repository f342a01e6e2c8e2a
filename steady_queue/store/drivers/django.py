"""Django's own connection: the statements are part of the caller's transaction."""

from __future__ import annotations

import random
import re
import time
from contextlib import nullcontext, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.utils import timezone

from steady_queue.errors import ConfigurationError, StoreConflict, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.drivers.error_codes import (
    build_error,
    is_answer_lost,
    mysql_error,
    postgres_error,
    sqlite_error,
)
from steady_queue.store.drivers.pool import MAX_TRIES, should_retry
from steady_queue.store.sql import MySQL, Postgres, SQLite
from steady_queue.store.sql.mysql import IDLE_TRANSACTION_SECONDS, check_size
from steady_queue.store.statement import drive

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation, Row, Statement

T = TypeVar("T")

_DIALECTS: dict[str, Dialect] = {"postgresql": Postgres(), "mysql": MySQL(), "sqlite": SQLite()}
#: MariaDB ends the transaction of a frozen process, as on our own connections; the setting is restored afterwards.
_SET_IDLE_TIMEOUT = (
    "SET @steady_queue_idle = @@SESSION.idle_transaction_timeout, SESSION idle_transaction_timeout = LEAST("
    f"COALESCE(NULLIF(@@SESSION.idle_transaction_timeout, 0), {IDLE_TRANSACTION_SECONDS}), {IDLE_TRANSACTION_SECONDS})"
)
_RESTORE_IDLE_TIMEOUT = "SET SESSION idle_transaction_timeout = @steady_queue_idle"
_NUMBERED = re.compile(r"\$(\d+)")


def dialect_of(connection: BaseDatabaseWrapper) -> Dialect:
    """The dialect of a Django connection."""
    try:
        return _DIALECTS[connection.vendor]
    except KeyError:
        raise ConfigurationError(
            f"the database {connection.alias!r} is {connection.display_name}; Steady Queue needs PostgreSQL, MySQL, "
            "MariaDB or SQLite"
        ) from None


class DjangoDriver:
    """Runs operations on the calling thread's connection to one alias."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.sql = dialect_of(self.connection)

    @property
    def connection(self) -> BaseDatabaseWrapper:
        return connections[self.alias]

    @property
    def in_transaction(self) -> bool:
        """Whether the caller has an open transaction, which we must neither end nor retry in."""
        connection = self.connection
        if connection.in_atomic_block:
            return True
        is_connected = connection.connection is not None
        return not (connection.autocommit if is_connected else connection.settings_dict["AUTOCOMMIT"])

    def run(self, operation: Operation[T]) -> T:
        try:
            # Here, not with the first statement: an error before anything is sent means that nothing was applied.
            self.connection.ensure_connection()
        except (DatabaseError, InterfaceError) as error:
            raise classify_error(error, self.connection, lost_means_unknown=False) from error
        if self.in_transaction:
            return self._run_in_callers(operation)
        for attempt in range(1, MAX_TRIES + 1):
            try:
                return self._run_in_own(operation)
            except StoreUnavailable:
                # Django would keep a connection that the server has closed; after this the next use opens a new one.
                self.connection.close()
                raise
            except StoreConflict as error:
                if attempt == MAX_TRIES or not should_retry(operation, error):
                    raise
                time.sleep(random.uniform(0, 0.005 * 2**attempt))
        raise AssertionError("unreachable")

    def run_without_savepoint(self, operation: Operation[T]) -> T:
        """As the last part of a transaction that is committed or rolled back as a whole."""
        try:
            return drive(operation.flow(), self._execute)
        except StoreError as error:
            error.applied = "no"
            self.connection.needs_rollback = True
            raise

    def take_write_lock(self) -> None:
        """On SQLite, inside a transaction: one that begins with a read may not be able to write later."""
        if self.connection.vendor == "sqlite":
            self._command("DELETE FROM steady_queue_lockbucket WHERE 0")

    def _run_in_callers(self, operation: Operation[T]) -> T:
        """Inside the caller's transaction: in a savepoint if the operation has several statements."""
        connection = self.connection
        around = transaction.atomic(using=self.alias) if operation.transaction else nullcontext()
        try:
            if operation.transaction and connection.vendor == "sqlite" and not connection.in_atomic_block:
                # With autocommit off, a savepoint that begins SQLite's transaction would also commit it.
                self._begin()
            with around:
                return drive(operation.flow(), self._execute)
        except StoreConflict:
            # The server has rolled back the transaction, or an unknown part of it: nothing may be committed.
            connection.needs_rollback = True
            raise
        except StoreError as error:
            error.applied = "no"
            if connection.vendor == "postgresql" and not operation.transaction:
                # Without a savepoint the server has aborted the caller's transaction: its COMMIT would roll back.
                connection.needs_rollback = True
            raise
        except (DatabaseError, InterfaceError) as error:
            raise classify_error(error, connection, lost_means_unknown=False) from error

    def _run_in_own(self, operation: Operation[T]) -> T:
        """In a transaction of our own, or in none if the operation is a single statement."""
        connection = self.connection
        if not operation.transaction:
            return drive(operation.flow(), self._execute)
        if connection.vendor == "mysql" and getattr(connection, "isolation_level", None) != "read committed":
            self._command("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        committing = is_bounded = False

        def execute(statement: Statement) -> list[Row]:
            nonlocal is_bounded
            if statement.holds_keys and not is_bounded and getattr(connection, "mysql_is_mariadb", False):
                self._command(_SET_IDLE_TIMEOUT)
                is_bounded = True
            return self._execute(statement)

        try:
            with transaction.atomic(using=self.alias):
                self._begin()
                result = drive(operation.flow(), execute)
                committing = True
        except StoreError as error:
            error.applied = "no"
            raise
        except (DatabaseError, InterfaceError) as error:
            raise classify_error(error, connection, lost_means_unknown=committing) from error
        finally:
            if is_bounded and connection.connection is not None:
                with suppress(StoreError):  # a lost connection has no setting to restore
                    self._command(_RESTORE_IDLE_TIMEOUT)
        return result

    def _begin(self) -> None:
        if self.connection.vendor == "postgresql":
            self._command("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        else:
            self.take_write_lock()

    def _command(self, text: str) -> None:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(text)
        except (DatabaseError, InterfaceError) as error:
            raise classify_error(error, self.connection, lost_means_unknown=False) from error

    def _execute(self, statement: Statement) -> list[Row]:
        connection = self.connection
        try:
            with connection.cursor() as cursor:
                text = _convert_placeholders(statement.text, connection.vendor)
                params = self.sql.params(statement)
                if connection.vendor == "mysql":
                    max_packet = _max_packet(self.alias)
                    for row in params if statement.many else (params,):
                        check_size(row, max_packet)
                if statement.many:
                    cursor.executemany(text, [_convert_params(row, connection.vendor) for row in params])
                    return []
                cursor.execute(text, _convert_params(params, connection.vendor))
                rows = cursor.fetchall() if statement.returns else []
        except (DatabaseError, InterfaceError, ValueError, OverflowError) as error:
            raise classify_error(error, connection, lost_means_unknown=True) from error
        rows = self.sql.rows(statement, rows)
        if connection.vendor == "postgresql" and not settings.USE_TZ:
            return [_make_aware(row, statement.returns) for row in rows]
        return rows


def _make_aware(row: Row, returns: str) -> Row:
    """A row with aware times: without USE_TZ Django's connection returns them as naive local times."""
    local = timezone.get_default_timezone()
    return [
        value.replace(tzinfo=local) if letter in "tm" and value is not None and value.tzinfo is None else value
        for value, letter in zip(row, returns, strict=True)
    ]


@lru_cache
def _max_packet(alias: str) -> int:
    """The largest packet that a MySQL server accepts, in bytes."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        return int(cursor.fetchone()[0])


@lru_cache(maxsize=1024)
def _convert_placeholders(text: str, vendor: str) -> str:
    """The statement with the placeholders of Django's cursors."""
    if vendor == "postgresql":
        return _NUMBERED.sub(r"%(p\1)s", text.replace("%", "%%"))
    return text.replace("%", "%%").replace("?", "%s") if vendor == "sqlite" else text


def _convert_params(params: Any, vendor: str) -> Any:
    return {f"p{at}": value for at, value in enumerate(params, 1)} if vendor == "postgresql" else params


def classify_error(error: BaseException, connection: BaseDatabaseWrapper, *, lost_means_unknown: bool) -> StoreError:
    """The class of an error raised by Django's connection, by the code in the driver's error that caused it."""
    if not isinstance(error, (DatabaseError, InterfaceError)):
        return build_error(StoreDataError, error, None)
    cause = error.__cause__ or error
    code: Any
    if connection.vendor == "postgresql":
        code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        # psycopg's own errors about a value (a NUL in a str) have no code; those about a connection have none either.
        if (
            code is None
            and isinstance(error, DatabaseError)
            and type(cause).__name__ in ("DataError", "NotSupportedError")
        ):
            return build_error(StoreDataError, error, None)
        kind = postgres_error(code)
        unknown = kind is StoreUnavailable and is_answer_lost(code)
    elif connection.vendor == "mysql":
        code = cause.args[0] if cause.args and isinstance(cause.args[0], int) else None
        kind = mysql_error(code)
        unknown = kind is StoreUnavailable
    else:
        code = getattr(cause, "sqlite_errorcode", None)
        kind = sqlite_error(code)
        unknown = False
    return build_error(kind, error, code, applied="unknown" if unknown and lost_means_unknown else "no")
