"""Recurring tasks: their entries. Entries of the code are static, entries made at run time are dynamic."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row


#: A time; or the driver's value of a column that a person has edited to something that is no time.
StoredTime: TypeAlias = "datetime | str | int | float | None"


class NewEntry(NamedTuple):
    """An entry as the code or the caller defines it."""

    task_key: str
    task_path: str
    schedule: str
    time_zone: str | None
    catch_up: str
    arguments: str
    queue_name: str | None
    priority: int | None
    description: str
    #: Whether a tick is left out while the job of an earlier tick waits or runs.
    skip_if_unfinished: bool = False


class Entry(NamedTuple):
    """An enabled entry, since when its ticks count, and the last tick that was enqueued."""

    new: NewEntry
    is_static: bool
    updated_at: StoredTime
    counts_from: StoredTime
    last_tick: StoredTime | None


class EntryListing(NamedTuple):
    """The database's time, and when each enabled entry was last changed."""

    now: datetime
    changed: dict[str, StoredTime]


class _StoredEntry(NamedTuple):
    new: NewEntry
    is_static: bool
    is_enabled: bool
    updated_at: StoredTime
    is_broken: bool


#: Entries that are read by one statement.
PAGE_ROWS = 200
_COLUMNS = NewEntry._fields
_SELECT = f"SELECT {', '.join(_COLUMNS)}, static, enabled, updated_at, disabled_reason FROM steady_queue_recurringtask"
_TYPES = "." * len(_COLUMNS) + "..m."
#: The last tick of an entry `t` that was enqueued.
LAST_TICK = (
    "(SELECT e.run_at FROM steady_queue_recurringexecution e WHERE e.task_key = t.task_key"
    " ORDER BY e.run_at DESC LIMIT 1)"
)


# -- reading ----------------------------------------------------------------------------------------------------------


@operation(transaction=False)
def list_entries(sql: Dialect) -> Flow[EntryListing]:
    """The enabled entries, and when each was last changed."""
    now = yield from read_database_time.flow(sql)
    text = (
        "SELECT task_key, updated_at FROM steady_queue_recurringtask WHERE task_key > ? AND enabled = ?"
        " ORDER BY task_key LIMIT ?"
    )
    changed: dict[str, StoredTime] = {}
    last = ""
    # In pages: a driver decodes the rows of a statement without yielding to the event loop.
    while True:
        rows = yield sql.statement(text, last, True, PAGE_ROWS, returns=".m")
        changed.update((str(key), at) for key, at in rows)
        if len(rows) < PAGE_ROWS:
            return EntryListing(now, changed)
        last = rows[-1][0]


@operation(transaction=False)
def read_database_time(sql: Dialect) -> Flow[datetime]:
    now: datetime = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0][0]
    return now


@operation(transaction=False)
def read_entries(sql: Dialect, keys: Sequence[str]) -> Flow[list[Entry]]:
    """The enabled ones of these entries."""
    found: list[Entry] = []
    for at in range(0, len(keys), PAGE_ROWS):
        rows = yield sql.statement(
            f"SELECT {', '.join(f't.{column}' for column in _COLUMNS)}, t.static, t.updated_at,"
            f" COALESCE(t.counts_from, t.updated_at), {LAST_TICK}"
            " FROM steady_queue_recurringtask t WHERE t.enabled = ? AND t.task_key IN ?*",
            True,
            list(keys[at : at + PAGE_ROWS]),
            returns="." * len(_COLUMNS) + ".mmm",
        )
        found += [Entry(NewEntry(*row[:-4]), bool(row[-4]), *row[-3:]) for row in rows]
    return found


@operation(transaction=False)
def read_entry(sql: Dialect, key: str) -> Flow[NewEntry | None]:
    """One entry, enabled or not."""
    rows = yield sql.statement(f"{_SELECT} WHERE task_key = ?", key, returns=_TYPES)
    return _parse_row(rows[0]).new if rows else None


# -- writing ----------------------------------------------------------------------------------------------------------


@operation()
def persist(sql: Dialect, wanted: Sequence[NewEntry], is_ours: Callable[[str], bool]) -> Flow[dict[str, str]]:
    """Insert, update and delete static entries so that they are these; unchanged entries are not written.

    `is_ours` is called with a task path and returns whether the task may belong to this project: other projects may
    share the database, and their entries are neither deleted nor replaced. Returned are the keys that such entries
    occupy, with their task paths. An entry that a person has disabled stays disabled; a broken one is enabled again.
    """
    wanted = sorted(wanted, key=lambda entry: entry.task_key)
    stored = yield from _read_all(sql)
    missing = [entry for entry in wanted if entry.task_key not in stored]
    for at in range(0, len(missing), PAGE_ROWS):
        rows = [(*entry, True, True) for entry in missing[at : at + PAGE_ROWS]]
        yield sql.statement_each(_insert_text(sql), rows)
    occupied: dict[str, str] = {}
    for entry in wanted:
        row = stored.get(entry.task_key)
        if row is None:
            continue
        if entry.task_path != row.new.task_path and not is_ours(row.new.task_path):
            occupied[entry.task_key] = row.new.task_path
        elif not row.is_static or row.new != entry or row.is_broken or not isinstance(row.updated_at, datetime):
            yield from _update(sql, row, entry, static=True, enabled=row.is_enabled or row.is_broken)
    kept = {entry.task_key for entry in wanted}
    for key, row in stored.items():
        if row.is_static and key not in kept and is_ours(row.new.task_path):
            yield sql.statement("DELETE FROM steady_queue_recurringtask WHERE task_key = ? AND static = ?", key, True)
    return occupied


@operation()
def add(sql: Dialect, entry: NewEntry) -> Flow[bool]:
    """Add a dynamic entry; False when there is one with its key."""
    if (yield from _lock_entry(sql, entry.task_key)) is not None:
        return False
    yield sql.statement(_insert_text(sql), *entry, False, True)
    # If the row differs from the entry, another process has inserted its entry at the same moment.
    rows = yield sql.statement(
        f"SELECT {', '.join(_COLUMNS)} FROM steady_queue_recurringtask WHERE task_key = ?",
        entry.task_key,
        returns="." * len(_COLUMNS),
    )
    return bool(rows) and NewEntry(*rows[0]) == entry


@operation()
def put(sql: Dialect, entry: NewEntry) -> Flow[bool]:
    """Add a dynamic entry, or replace the one with its key and enable it; False when that one is static."""
    row = yield from _lock_entry(sql, entry.task_key)
    if row is None:
        yield sql.statement(_insert_text(sql), *entry, False, True)
        # Another process may have inserted its entry at the same moment.
        row = yield from _lock_entry(sql, entry.task_key)
    if row is None or row.is_static:
        return False
    if row.new != entry or not row.is_enabled:
        yield from _update(sql, row, entry, static=False, enabled=True)
    return True


@operation()
def remove(sql: Dialect, key: str) -> Flow[bool]:
    """Remove a dynamic entry; False when there is none with this key."""
    row = yield from _lock_entry(sql, key)
    if row is None or row.is_static:
        return False
    yield sql.statement("DELETE FROM steady_queue_recurringtask WHERE task_key = ?", key)
    return True


@operation()
def switch(sql: Dialect, key: str, *, on: bool) -> Flow[bool]:
    """Enable or disable an entry, static or dynamic; False when there is none with this key."""
    row = yield from _lock_entry(sql, key)
    if row is None:
        return False
    # An enabled entry is not written: ticks that are late would be lost. A broken entry that is disabled stays so.
    if not on or not row.is_enabled:
        yield from _write_enabled(sql, key, on, None)
    return True


@operation()
def disable_broken(sql: Dialect, key: str, updated_at: StoredTime, reason: str) -> Flow[bool]:
    """Disable an entry that cannot be enqueued; False when it was changed since it was read."""
    row = yield from _lock_entry(sql, key)
    if row is None or not row.is_enabled or row.updated_at != updated_at:
        return False
    yield from _write_enabled(sql, key, False, reason)
    return True


def _read_all(sql: Dialect) -> Flow[dict[str, _StoredEntry]]:
    """All entries, by their keys in order."""
    text = f"{_SELECT} WHERE task_key > ? ORDER BY task_key LIMIT ?"
    found: dict[str, _StoredEntry] = {}
    last = ""
    while True:
        rows = yield sql.statement(text, last, PAGE_ROWS, returns=_TYPES)
        found.update((row[0], _parse_row(row)) for row in rows)
        if len(rows) < PAGE_ROWS:
            return found
        last = rows[-1][0]


def _lock_entry(sql: Dialect, key: str) -> Flow[_StoredEntry | None]:
    """The entry, if there is one; its row is locked until the transaction ends."""
    rows = yield sql.statement(f"{_SELECT} WHERE task_key = ?{sql.for_update}", key, returns=_TYPES)
    return _parse_row(rows[0]) if rows else None


def _parse_row(row: Row) -> _StoredEntry:
    static, enabled, updated_at, reason = row[len(_COLUMNS) :]
    return _StoredEntry(NewEntry(*row[: len(_COLUMNS)]), bool(static), bool(enabled), updated_at, reason is not None)


def _insert_text(sql: Dialect) -> str:
    return sql.insert_new(
        f"steady_queue_recurringtask ({', '.join(_COLUMNS)}, static, enabled, created_at, updated_at)"
        f" VALUES ({', '.join('?' * len(_COLUMNS))}, ?, ?, {sql.now}, {sql.now})"
    )


def _update(sql: Dialect, row: _StoredEntry, entry: NewEntry, *, static: bool, enabled: bool) -> Flow[None]:
    """Replace a row by this entry. Its ticks count from now on if its times have changed, or it was disabled."""
    has_same_times = (row.new.schedule, row.new.time_zone) == (entry.schedule, entry.time_zone)
    continues = has_same_times and row.is_enabled and enabled and isinstance(row.updated_at, datetime)
    # Before `updated_at`: MySQL evaluates assignments in the order in which they are written.
    counts_from = "COALESCE(counts_from, updated_at)" if continues else "NULL"
    yield sql.statement(
        f"UPDATE steady_queue_recurringtask SET {', '.join(f'{column} = ?' for column in _COLUMNS[1:])},"
        f" static = ?, enabled = ?, disabled_reason = NULL, counts_from = {counts_from}, updated_at = {sql.now}"
        " WHERE task_key = ?",
        *entry[1:],
        static,
        enabled,
        entry.task_key,
    )


def _write_enabled(sql: Dialect, key: str, on: bool, reason: str | None) -> Flow[None]:
    yield sql.statement(
        "UPDATE steady_queue_recurringtask SET enabled = ?, disabled_reason = ?, counts_from = NULL,"
        f" updated_at = {sql.now} WHERE task_key = ?",
        on,
        reason,
        key,
    )
