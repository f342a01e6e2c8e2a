"""Error codes of the servers, and the StoreError class of each: errors are never classified by their text."""

from __future__ import annotations

from typing import Literal

from steady_queue.errors import StoreBug, StoreConflict, StoreDataError, StoreError, StoreUnavailable

#: Messages of drivers are cut to this length: some quote all values of a statement, and so a task's arguments.
MESSAGE_CHARACTERS = 500

#: Deadlock, serialization failure, lock not available.
_POSTGRES_CONFLICT = {"40001", "40P01", "55P03"}
#: Shutdown, crash, cannot connect now, idle session ended, query cancelled by a timeout, read-only standby.
_POSTGRES_UNAVAILABLE = {"57P01", "57P02", "57P03", "57P05", "57014", "25006", "25P03"}
#: Connection exceptions, insufficient resources (disk, memory, connections), system errors.
_POSTGRES_UNAVAILABLE_CLASSES = {"08", "53", "58"}
_POSTGRES_DATA_CLASSES = {"22", "23"}

#: Lock wait timeout, deadlock, record changed since last read, lock not available.
_MYSQL_CONFLICT = {1205, 1213, 1020, 3572}
#: Lost, refused or killed connections; limits on connections; shutdown; read-only; disk full; statement time-outs.
_MYSQL_UNAVAILABLE = {
    *range(2000, 2062),
    *(1021, 1030, 1040, 1042, 1043, 1047, 1053, 1077, 1078, 1079, 1080, 1081, 1114),
    *range(1152, 1153),
    *range(1154, 1162),
    *(1203, 1226, 1290, 1317, 1792, 1836, 1927, 1969, 3024, 4031),
}
#: Packet too large, null, duplicate, out of range, truncated, wrong value, too long, constraints.
_MYSQL_DATA = {1048, 1062, 1153, 1264, 1265, 1292, 1301, 1366, 1406, 1451, 1452, 1586, 3140, 3819, 4025}

#: A lock that was not free in time, of PostgreSQL and of MySQL or MariaDB.
_LOCK_TIMEOUT = {"55P03", "1205"}

#: A table that does not exist, of PostgreSQL and of MySQL or MariaDB.
_TABLE_MISSING = {"42P01", "1146"}
#: A column that does not exist, of PostgreSQL and of MySQL or MariaDB.
_COLUMN_MISSING = {"42703", "1054"}
#: SQLite's code for most errors of a statement, a missing table among them.
_SQLITE_GENERIC = "1"

#: Primary result codes: read-only, I/O error, full, cannot open, busy, locked, out of memory, interrupted, protocol.
_SQLITE_UNAVAILABLE = {5, 6, 7, 8, 9, 10, 13, 14, 15}
_SQLITE_CONFLICT = {17}
#: Too big, constraint, mismatch, out of range.
_SQLITE_DATA = {18, 19, 20, 25}


def postgres_error(code: str | None) -> type[StoreError]:
    """The class for a SQLSTATE; an error without one is an error of the connection."""
    if code is None or code in _POSTGRES_UNAVAILABLE or code[:2] in _POSTGRES_UNAVAILABLE_CLASSES:
        return StoreUnavailable
    if code in _POSTGRES_CONFLICT:
        return StoreConflict
    return StoreDataError if code[:2] in _POSTGRES_DATA_CLASSES else StoreBug


def is_answer_lost(code: str | None) -> bool:
    """Whether PostgreSQL may have applied the statement although it is unavailable.

    Codes of class 08 are set by the client when it got no answer; a server that shuts down may have committed before it
    sent one. Any other code is an answer: nothing was applied.
    """
    return code is None or code[:2] == "08" or code in {"57P01", "57P02", "57P03", "57P05"}


def mysql_error(code: int | None) -> type[StoreError]:
    """The class for a MySQL or MariaDB error number; an error without one, or 0, is an error of the connection."""
    if not code or code in _MYSQL_UNAVAILABLE:
        return StoreUnavailable
    if code in _MYSQL_CONFLICT:
        return StoreConflict
    return StoreDataError if code in _MYSQL_DATA else StoreBug


def is_lock_timeout(error: StoreError) -> bool:
    """Whether another transaction has held a lock for longer than the statement waits."""
    return error.code in _LOCK_TIMEOUT


def is_table_missing(error: StoreError) -> bool | None:
    """Whether the statement names a table that does not exist; None if the code leaves that open."""
    return None if error.code == _SQLITE_GENERIC else error.code in _TABLE_MISSING


def is_column_missing(error: StoreError) -> bool:
    """Whether the statement names a column that does not exist, by a code; SQLite has none."""
    return error.code in _COLUMN_MISSING


def sqlite_error(code: int | None) -> type[StoreError]:
    """The class for a SQLite result code, extended or primary."""
    primary = None if code is None else code & 0xFF
    if primary in _SQLITE_UNAVAILABLE:
        return StoreUnavailable
    if primary in _SQLITE_CONFLICT:
        return StoreConflict
    return StoreDataError if primary in _SQLITE_DATA else StoreBug


def build_error(
    kind: type[StoreError], error: BaseException, code: object, *, applied: Literal["no", "unknown"] = "no"
) -> StoreError:
    """A StoreError with the driver's message, cut so that it does not quote a whole statement with its values."""
    return kind(
        f"{type(error).__name__}: {error}"[:MESSAGE_CHARACTERS],
        code=None if code is None else str(code),
        applied=applied,
    )
