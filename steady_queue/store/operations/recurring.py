"""Recurring tasks: their entries. What recurs in the code is static, what was made at run time dynamic."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row


#: An instant; or what a person wrote in its place, which is none, as the driver gives it.
StoredTime: TypeAlias = "datetime | str | int | float | None"


class NewEntry(NamedTuple):
    """An entry as its author wrote it."""

    task_key: str
    task_path: str
    schedule: str
    time_zone: str | None
    catch_up: str
    arguments: str
    queue_name: str | None
    priority: int | None
    description: str


class Entry(NamedTuple):
    """An entry that is to fire, since when its ticks count, and the last of them that was enqueued."""

    new: NewEntry
    is_static: bool
    updated_at: StoredTime
    counts_from: StoredTime
    last_tick: StoredTime | None


class EntryListing(NamedTuple):
    """The database's time, and when each enabled entry was last changed."""

    now: datetime
    changed: dict[str, StoredTime]


#: So many entries are read with one statement.
PAGE_ROWS = 200
_COLUMNS = NewEntry._fields
_STORED = f"SELECT {', '.join(_COLUMNS)}, static, enabled, updated_at, disabled_reason FROM steady_queue_recurringtask"
_STORED_TYPES = "." * len(_COLUMNS) + "..m."
#: The last tick of an entry `t` that was enqueued.
LAST_TICK = (
    "(SELECT e.run_at FROM steady_queue_recurringexecution e WHERE e.task_key = t.task_key"
    " ORDER BY e.run_at DESC LIMIT 1)"
)


# -- reading ----------------------------------------------------------------------------------------------------------


def list_entries(sql: Dialect) -> Operation[EntryListing]:
    """Which entries are enabled, and when each was last changed."""
    return Operation("recurring listing", partial(_listing, sql), transaction=False)


def read_database_time(sql: Dialect) -> Operation[datetime]:
    """The database's time."""
    return Operation("clock", partial(_clock, sql), transaction=False)


def read_entries(sql: Dialect, keys: Sequence[str]) -> Operation[list[Entry]]:
    """The enabled ones of these entries."""
    return Operation("recurring entries", partial(_entries, sql, keys), transaction=False)


def _listing(sql: Dialect) -> Flow[EntryListing]:
    now = yield from _clock(sql)
    text = (
        "SELECT task_key, updated_at FROM steady_queue_recurringtask WHERE task_key > ? AND enabled = ?"
        " ORDER BY task_key LIMIT ?"
    )
    changed: dict[str, StoredTime] = {}
    last = ""
    # In pages: a driver decodes each without a pause.
    while True:
        rows = yield sql.say(text, last, True, PAGE_ROWS, returns=".m")
        changed.update((str(key), at) for key, at in rows)
        if len(rows) < PAGE_ROWS:
            return EntryListing(now, changed)
        last = rows[-1][0]


def _clock(sql: Dialect) -> Flow[datetime]:
    now: datetime = (yield sql.say(f"SELECT {sql.now}", returns="t"))[0][0]
    return now


def _entries(sql: Dialect, keys: Sequence[str]) -> Flow[list[Entry]]:
    found: list[Entry] = []
    for at in range(0, len(keys), PAGE_ROWS):
        rows = yield sql.say(
            f"SELECT {', '.join(f't.{column}' for column in _COLUMNS)}, t.static, t.updated_at,"
            f" COALESCE(t.counts_from, t.updated_at), {LAST_TICK}"
            " FROM steady_queue_recurringtask t WHERE t.enabled = ? AND t.task_key IN ?*",
            True,
            list(keys[at : at + PAGE_ROWS]),
            returns="." * len(_COLUMNS) + ".mmm",
        )
        found += [Entry(NewEntry(*row[:-4]), bool(row[-4]), *row[-3:]) for row in rows]
    return found


# -- writing entries --------------------------------------------------------------------------------------------------


def persist(sql: Dialect, wanted: Sequence[NewEntry], is_ours: Callable[[str], bool]) -> Operation[dict[str, str]]:
    """Make the static entries these, and leave alone what has not changed, or is of others.

    `is_ours` tells of the path of a task whether it may be one of this project: others may share the database, and
    their entries are neither deleted nor taken over; returned are the keys that they have already, with the tasks of
    theirs. An entry that was switched off by a person stays off; one that
    was found broken gets another chance.
    """
    ordered = sorted(wanted, key=lambda entry: entry.task_key)
    return Operation("persist recurring", partial(_persist, sql, ordered, is_ours))


def add(sql: Dialect, entry: NewEntry) -> Operation[bool]:
    """Add a dynamic entry; False when there is one with its key."""
    return Operation("add recurring", partial(_add, sql, entry))


def put(sql: Dialect, entry: NewEntry) -> Operation[bool]:
    """Add a dynamic entry, or make the one with its key this, and switch it on; False when that one is static."""
    return Operation("put recurring", partial(_put, sql, entry))


def remove(sql: Dialect, key: str) -> Operation[bool]:
    """Remove a dynamic entry; False when there is none with this key."""
    return Operation("remove recurring", partial(_remove, sql, key))


def switch(sql: Dialect, key: str, *, on: bool) -> Operation[bool]:
    """Switch an entry on or off, static or not; False when there is none with this key."""
    return Operation("switch recurring", partial(_switch, sql, key, on))


def disable_broken(sql: Dialect, key: str, updated_at: StoredTime, reason: str) -> Operation[bool]:
    """Switch off an entry that cannot fire; False when it is no longer as it was read."""
    return Operation("give up recurring", partial(_give_up, sql, key, updated_at, reason))


def _persist(sql: Dialect, wanted: Sequence[NewEntry], is_ours: Callable[[str], bool]) -> Flow[dict[str, str]]:
    stored = yield from _stored(sql)
    missing = [entry for entry in wanted if entry.task_key not in stored]
    for at in range(0, len(missing), PAGE_ROWS):
        rows = [(*entry, True, True) for entry in missing[at : at + PAGE_ROWS]]
        yield sql.say_each(sql.unless_there(_insertion(sql)), rows)
    taken: dict[str, str] = {}
    for entry in wanted:
        row = stored.get(entry.task_key)
        if row is None:
            continue
        if entry.task_path != row.new.task_path and not is_ours(row.new.task_path):
            taken[entry.task_key] = row.new.task_path
        elif not row.is_static or row.new != entry or row.is_broken or not isinstance(row.updated_at, datetime):
            yield from _write(sql, row, entry, static=True, enabled=row.is_enabled or row.is_broken)
    kept = {entry.task_key for entry in wanted}
    for key, row in stored.items():
        if row.is_static and key not in kept and is_ours(row.new.task_path):
            yield sql.say("DELETE FROM steady_queue_recurringtask WHERE task_key = ? AND static = ?", key, True)
    return taken


class _Stored(NamedTuple):
    new: NewEntry
    is_static: bool
    is_enabled: bool
    updated_at: StoredTime
    is_broken: bool


def _stored(sql: Dialect) -> Flow[dict[str, _Stored]]:
    """All entries, by their keys in order."""
    text = f"{_STORED} WHERE task_key > ? ORDER BY task_key LIMIT ?"
    found: dict[str, _Stored] = {}
    last = ""
    while True:
        rows = yield sql.say(text, last, PAGE_ROWS, returns=_STORED_TYPES)
        found.update((row[0], _as_stored(row)) for row in rows)
        if len(rows) < PAGE_ROWS:
            return found
        last = rows[-1][0]


def _held(sql: Dialect, key: str) -> Flow[_Stored | None]:
    """The entry, if there is one; it is held until the transaction ends."""
    rows = yield sql.say(f"{_STORED} WHERE task_key = ?{sql.take}", key, returns=_STORED_TYPES)
    return _as_stored(rows[0]) if rows else None


def _as_stored(row: Row) -> _Stored:
    static, enabled, updated_at, reason = row[len(_COLUMNS) :]
    return _Stored(NewEntry(*row[: len(_COLUMNS)]), bool(static), bool(enabled), updated_at, reason is not None)


def _write(sql: Dialect, row: _Stored, entry: NewEntry, *, static: bool, enabled: bool) -> Flow[None]:
    """Make a row this entry. Its ticks count from now on only if they are others, or there were none."""
    same = (row.new.schedule, row.new.time_zone) == (entry.schedule, entry.time_zone)
    goes_on = same and row.is_enabled and enabled and isinstance(row.updated_at, datetime)
    # Before `updated_at`: MySQL assigns in the order in which they are written.
    counts_from = "COALESCE(counts_from, updated_at)" if goes_on else "NULL"
    yield sql.say(
        f"UPDATE steady_queue_recurringtask SET {', '.join(f'{column} = ?' for column in _COLUMNS[1:])},"
        f" static = ?, enabled = ?, disabled_reason = NULL, counts_from = {counts_from}, updated_at = {sql.now}"
        " WHERE task_key = ?",
        *entry[1:],
        static,
        enabled,
        entry.task_key,
    )


def _add(sql: Dialect, entry: NewEntry) -> Flow[bool]:
    if (yield from _held(sql, entry.task_key)) is not None:
        return False
    yield sql.say(sql.unless_there(_insertion(sql)), *entry, False, True)
    # Whoever else added it at the same moment was first if what is there is not the same.
    rows = yield sql.say(
        f"SELECT {', '.join(_COLUMNS)} FROM steady_queue_recurringtask WHERE task_key = ?",
        entry.task_key,
        returns="." * len(_COLUMNS),
    )
    return bool(rows) and NewEntry(*rows[0]) == entry


def _insertion(sql: Dialect) -> str:
    return (
        f"INSERT INTO steady_queue_recurringtask ({', '.join(_COLUMNS)}, static, enabled, created_at, updated_at)"
        f" VALUES ({', '.join('?' * len(_COLUMNS))}, ?, ?, {sql.now}, {sql.now})"
    )


def _put(sql: Dialect, entry: NewEntry) -> Flow[bool]:
    row = yield from _held(sql, entry.task_key)
    if row is None:
        yield sql.say(sql.unless_there(_insertion(sql)), *entry, False, True)
        # Whoever else put it at the same moment may have been first.
        row = yield from _held(sql, entry.task_key)
    if row is None or row.is_static:
        return False
    if row.new != entry or not row.is_enabled:
        yield from _write(sql, row, entry, static=False, enabled=True)
    return True


def _remove(sql: Dialect, key: str) -> Flow[bool]:
    row = yield from _held(sql, key)
    if row is None or row.is_static:
        return False
    yield sql.say("DELETE FROM steady_queue_recurringtask WHERE task_key = ?", key)
    return True


def _switch(sql: Dialect, key: str, on: bool) -> Flow[bool]:
    row = yield from _held(sql, key)
    if row is None:
        return False
    # One that is on goes on: ticks that are only late would be lost. One that broke and is switched off stays so.
    if not on or not row.is_enabled:
        yield from _switched(sql, key, on, None)
    return True


def _give_up(sql: Dialect, key: str, updated_at: StoredTime, reason: str) -> Flow[bool]:
    row = yield from _held(sql, key)
    if row is None or not row.is_enabled or row.updated_at != updated_at:
        return False
    yield from _switched(sql, key, False, reason)
    return True


def _switched(sql: Dialect, key: str, on: bool, reason: str | None) -> Flow[None]:
    yield sql.say(
        "UPDATE steady_queue_recurringtask SET enabled = ?, disabled_reason = ?, counts_from = NULL,"
        f" updated_at = {sql.now} WHERE task_key = ?",
        on,
        reason,
        key,
    )
