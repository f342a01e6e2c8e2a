"""Recurring tasks: their entries. What recurs in the code is static, what was made at run time dynamic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


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
    """An entry that is to fire, with the last of its ticks that was enqueued."""

    new: NewEntry
    updated_at: datetime
    last_tick: datetime | None


class Listing(NamedTuple):
    """The database's time, and when each enabled entry was last changed."""

    now: datetime
    changed: dict[str, datetime]


#: So many entries are read with one statement.
PAGE = 200
_COLUMNS = NewEntry._fields
#: The last tick of an entry `t` that was enqueued.
LAST_TICK = (
    "(SELECT e.run_at FROM steady_queue_recurringexecution e WHERE e.task_key = t.task_key"
    " ORDER BY e.run_at DESC LIMIT 1)"
)


# -- reading ----------------------------------------------------------------------------------------------------------


def listing(sql: Dialect) -> Operation[Listing]:
    """Which entries are enabled, and when each was last changed."""
    return Operation("recurring listing", partial(_listing, sql), transaction=False)


def clock(sql: Dialect) -> Operation[datetime]:
    """The database's time."""
    return Operation("clock", partial(_clock, sql), transaction=False)


def entries(sql: Dialect, keys: Sequence[str]) -> Operation[list[Entry]]:
    """The enabled ones of these entries."""
    return Operation("recurring entries", partial(_entries, sql, keys), transaction=False)


def _listing(sql: Dialect) -> Flow[Listing]:
    now = yield from _clock(sql)
    text = (
        "SELECT task_key, updated_at FROM steady_queue_recurringtask WHERE task_key > ? AND enabled = ?"
        " ORDER BY task_key LIMIT ?"
    )
    changed: dict[str, datetime] = {}
    last = ""
    # In pages: a driver decodes each without a pause.
    while True:
        rows = yield sql.say(text, last, True, PAGE, returns=".t")
        changed.update((str(key), at) for key, at in rows)
        if len(rows) < PAGE:
            return Listing(now, changed)
        last = rows[-1][0]


def _clock(sql: Dialect) -> Flow[datetime]:
    now: datetime = (yield sql.say(f"SELECT {sql.now}", returns="t"))[0][0]
    return now


def _entries(sql: Dialect, keys: Sequence[str]) -> Flow[list[Entry]]:
    found: list[Entry] = []
    for at in range(0, len(keys), PAGE):
        rows = yield sql.say(
            f"SELECT {', '.join(f't.{column}' for column in _COLUMNS)}, t.updated_at, {LAST_TICK}"
            " FROM steady_queue_recurringtask t WHERE t.enabled = ? AND t.task_key IN ?*",
            True,
            list(keys[at : at + PAGE]),
            returns="." * len(_COLUMNS) + "tt",
        )
        found += [Entry(NewEntry(*row[:-2]), row[-2], row[-1]) for row in rows]
    return found


# -- writing entries --------------------------------------------------------------------------------------------------


def persist(sql: Dialect, wanted: Sequence[NewEntry]) -> Operation[None]:
    """Make the static entries these, and leave alone what has not changed.

    An entry that was switched off by a person stays off; one that was found broken gets another chance.
    """
    return Operation("persist recurring", partial(_persist, sql, sorted(wanted, key=lambda entry: entry.task_key)))


def add(sql: Dialect, entry: NewEntry) -> Operation[bool]:
    """Add a dynamic entry; False when there is one with its key."""
    return Operation("add recurring", partial(_add, sql, entry, False))


def edit(sql: Dialect, entry: NewEntry) -> Operation[bool]:
    """Change a dynamic entry, and switch it on; False when there is none with its key."""
    return Operation("edit recurring", partial(_edit, sql, entry, False))


def remove(sql: Dialect, key: str) -> Operation[bool]:
    """Remove a dynamic entry; False when there is none with this key."""
    return Operation("remove recurring", partial(_remove, sql, key))


def switch(sql: Dialect, key: str, *, on: bool, reason: str | None = None) -> Operation[bool]:
    """Switch an entry on or off, static or not; False when there is none with this key."""
    return Operation("switch recurring", partial(_switch, sql, key, on, reason))


def _persist(sql: Dialect, wanted: Sequence[NewEntry]) -> Flow[None]:
    rows = yield sql.say(
        f"SELECT {', '.join(_COLUMNS)}, static, disabled_reason FROM steady_queue_recurringtask",
        returns="." * len(_COLUMNS) + "..",
    )
    stored = {row[0]: row for row in rows}
    for entry in wanted:
        row = stored.get(entry.task_key)
        if row is None:
            yield from _add(sql, entry, True)
        elif not row[-2] or NewEntry(*row[:-2]) != entry or row[-1] is not None:
            yield from _take_over(sql, entry, is_broken=row[-1] is not None)
    kept = {entry.task_key for entry in wanted}
    for key in sorted(row[0] for row in rows if row[-2] and row[0] not in kept):
        yield sql.say("DELETE FROM steady_queue_recurringtask WHERE task_key = ? AND static = ?", key, True)


def _take_over(sql: Dialect, entry: NewEntry, *, is_broken: bool) -> Flow[None]:
    if is_broken:
        yield from _switch(sql, entry.task_key, True, None)
    yield sql.say(
        f"UPDATE steady_queue_recurringtask SET {', '.join(f'{column} = ?' for column in _COLUMNS[1:])},"
        f" static = ?, updated_at = {sql.now} WHERE task_key = ?",
        *entry[1:],
        True,
        entry.task_key,
    )


def _add(sql: Dialect, entry: NewEntry, is_static: bool) -> Flow[bool]:
    if (yield from _held(sql, entry.task_key)) is not None:
        return False
    text = (
        f"INSERT INTO steady_queue_recurringtask ({', '.join(_COLUMNS)}, static, enabled, created_at, updated_at)"
        f" VALUES ({', '.join('?' * len(_COLUMNS))}, ?, ?, {sql.now}, {sql.now})"
    )
    yield sql.say(sql.unless_there(text), *entry, is_static, True)
    # Whoever else added it at the same moment was first if what is there is not the same.
    rows = yield sql.say(
        f"SELECT {', '.join(_COLUMNS)} FROM steady_queue_recurringtask WHERE task_key = ?",
        entry.task_key,
        returns="." * len(_COLUMNS),
    )
    return bool(rows) and NewEntry(*rows[0]) == entry


def _edit(sql: Dialect, entry: NewEntry, is_static: bool) -> Flow[bool]:
    if (yield from _held(sql, entry.task_key)) is not is_static:
        return False
    yield sql.say(
        f"UPDATE steady_queue_recurringtask SET {', '.join(f'{column} = ?' for column in _COLUMNS[1:])},"
        f" enabled = ?, disabled_reason = NULL, updated_at = {sql.now} WHERE task_key = ?",
        *entry[1:],
        True,
        entry.task_key,
    )
    return True


def _remove(sql: Dialect, key: str) -> Flow[bool]:
    if (yield from _held(sql, key)) is not False:
        return False
    yield sql.say("DELETE FROM steady_queue_recurringtask WHERE task_key = ?", key)
    return True


def _switch(sql: Dialect, key: str, on: bool, reason: str | None) -> Flow[bool]:
    if (yield from _held(sql, key)) is None:
        return False
    yield sql.say(
        f"UPDATE steady_queue_recurringtask SET enabled = ?, disabled_reason = ?, updated_at = {sql.now}"
        " WHERE task_key = ?",
        on,
        reason,
        key,
    )
    return True


def _held(sql: Dialect, key: str) -> Flow[bool | None]:
    """Whether the entry is static, None without one; it is held until the transaction ends."""
    text = f"SELECT static FROM steady_queue_recurringtask WHERE task_key = ?{sql.take}"
    rows = yield sql.say(text, key, returns=".")
    return bool(rows[0][0]) if rows else None
