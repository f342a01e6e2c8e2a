"""Queues: their names, found without reading their jobs, what waits in them, and which of them rest.

Also news of a change, where the database tells cheaply.

Remainder: whether some queues still have anything to do, now or within a moment.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import SERVED_LANES, Lane
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


def find_queue_names(sql: Dialect) -> Operation[list[str]]:
    """The names of the queues that have ready jobs, in order: one step down the index for each name."""
    return Operation("queue names", sql.queue_names, transaction=False)


class WaitingQueues(NamedTuple):
    """Where jobs wait that may be claimed."""

    #: The names of the queues that are not paused and have ready jobs, in order, by lane.
    names: dict[int, list[str]]
    #: Whether any queue is paused.
    is_paused: bool


def find_waiting_queues(sql: Dialect) -> Operation[WaitingQueues]:
    """The queues that a worker may find jobs in: a few steps down the index for each name, and one round trip."""
    return Operation("waiting queues", partial(_waiting, sql), transaction=False)


def read_change_marker(sql: Dialect) -> Operation[int | None]:
    """A number that changes when another connection has written; None where the database has no such thing."""
    return Operation("change marker", partial(_change_marker, sql), transaction=False)


def size(sql: Dialect, queue: str) -> Operation[int]:
    """How many ready jobs a queue has."""
    return Operation("queue size", partial(_size, sql, queue), transaction=False)


def latency(sql: Dialect, queue: str) -> Operation[timedelta | None]:
    """How long the longest waiting of those next in line has waited, by the database's time; None when none is ready.

    Next in line is the first of each lane and priority: found by steps down the index, however many wait behind it.
    """
    return Operation("queue latency", partial(_latency, sql, queue), transaction=False)


def pause(sql: Dialect, queue: str) -> Operation[bool]:
    """Let nothing be claimed from a queue; tells whether that is new."""
    return Operation("pause", partial(_pause, sql, queue))


def resume(sql: Dialect, queue: str) -> Operation[bool]:
    """Let a queue be served again; tells whether that is new."""
    return Operation("resume", partial(_resume, sql, queue))


def find_paused_queues(sql: Dialect, queue: str | None = None) -> Operation[list[str]]:
    """The names of the queues that are paused, in order, or the one asked about if it is."""
    return Operation("paused queues", partial(_paused, sql, queue), transaction=False)


def _waiting(sql: Dialect) -> Flow[WaitingQueues]:
    rows = yield from sql.waiting_queues()
    names: dict[int, list[str]] = {lane: [] for lane in Lane}
    is_paused = False
    for name, lane in rows:
        if name is None:
            is_paused = True
        elif lane in names:  # others are of a newer version, or of a person: no worker has room for them
            names[lane].append(name)
    # Python puts texts into the order of their code points, which is that of their bytes.
    return WaitingQueues({lane: sorted(its) for lane, its in names.items()}, is_paused)


def _change_marker(sql: Dialect) -> Flow[int | None]:
    if not sql.change_marker:
        return None
    rows = yield sql.say(sql.change_marker, returns=".")
    return int(rows[0][0])


def _size(sql: Dialect, queue: str) -> Flow[int]:
    rows = yield sql.say(f"SELECT count(*) FROM {sql.ready_by_queue} WHERE queue_name = ?", queue, returns=".")
    return int(rows[0][0])


def _latency(sql: Dialect, queue: str) -> Flow[timedelta | None]:
    first: list[UUID] = []
    for lane in Lane:
        priority = yield from next_priority(sql, queue, lane)
        while priority is not None:
            rows = yield sql.say(
                f"SELECT job_id FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority = ?"
                " ORDER BY job_id LIMIT 1",
                *(queue, lane, priority),
                returns="u",
            )
            first.extend(row[0] for row in rows)
            priority = yield from next_priority(sql, queue, lane, priority)
    if not first:
        return None
    rows = yield sql.say(
        f"SELECT enqueued_at, scheduled_at, {sql.now} FROM steady_queue_job WHERE id IN ?*", first, returns="ttt"
    )
    # Clocks differ: nobody waits for less than no time.
    waits: list[timedelta] = [now - (scheduled_at or enqueued_at) for enqueued_at, scheduled_at, now in rows]
    return max([*waits, timedelta(0)]) if waits else None


#: No priority is higher.
HIGHEST_PRIORITY = 32767


def next_priority(sql: Dialect, queue: str, lane: int, below: int = HIGHEST_PRIORITY) -> Flow[int | None]:
    """The next lower priority that ready jobs of a queue and lane have."""
    rows = yield sql.say(
        f"SELECT priority FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority < ?"
        " ORDER BY priority DESC LIMIT 1",
        *(queue, lane, below),
        returns=".",
    )
    return rows[0][0] if rows else None


def _pause(sql: Dialect, queue: str) -> Flow[bool]:
    if (yield from _paused(sql, queue)):
        return False
    yield sql.say(
        f"{sql.insert_missing} INTO steady_queue_pause (queue_name, created_at) VALUES (?, {sql.now}){sql.or_nothing}",
        queue,
    )
    return True


def _resume(sql: Dialect, queue: str) -> Flow[bool]:
    if not (yield from _paused(sql, queue)):
        return False
    yield sql.say("DELETE FROM steady_queue_pause WHERE queue_name = ?", queue)
    return True


def _paused(sql: Dialect, queue: str | None) -> Flow[list[str]]:
    only, its_name = (" WHERE p.queue_name = ?", (queue,)) if queue is not None else ("", ())
    rows = yield sql.say(
        f"SELECT p.queue_name FROM steady_queue_pause p{only} ORDER BY p.queue_name", *its_name, returns="."
    )
    return [row[0] for row in rows]


_SERVED = ", ".join(f"{lane:d}" for lane in SERVED_LANES)


def has_remaining_jobs(
    sql: Dialect, patterns: Sequence[str], *, within: float, is_dispatched: bool = True
) -> Operation[bool]:
    """Whether a job in queues of these patterns is ready, blocked, claimed, or due within so many seconds.

    What is ready or blocked in a paused queue does not count: nobody will run it. Neither does what is ready in a lane
    that no worker of this version has: a newer version may run it, and perhaps never comes. Without a dispatcher of the
    caller's own (`is_dispatched`), neither does what has been due for that long: others would have moved it.
    """
    return Operation("remains", partial(_remains, sql, list(patterns), within, is_dispatched), transaction=False)


def find_unserved_queues(sql: Dialect, patterns: Sequence[str]) -> Operation[list[tuple[str, int]]]:
    """The queues of these patterns and their lanes that have ready jobs which no worker of this version runs."""
    return Operation("unserved", partial(_unserved, sql, list(patterns)), transaction=False)


def _remains(sql: Dialect, patterns: Sequence[str], within: float, is_dispatched: bool) -> Flow[bool]:
    fits, values = _fits(patterns)
    not_paused = " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p WHERE p.queue_name = j.queue_name)"
    due = f" AND e.scheduled_at < {sql.ago(-within)}"
    if not is_dispatched:
        due += f" AND e.scheduled_at > {sql.ago(within)}"
    # In the order in which jobs move: one that moves on meanwhile is seen in a later table.
    for table, where in (
        ("scheduledexecution", due),
        ("blockedexecution", not_paused),
        ("readyexecution", f"{not_paused} AND e.lane IN ({_SERVED})"),
        ("claimedexecution", ""),
    ):
        text = f"SELECT 1 FROM steady_queue_{table} e JOIN steady_queue_job j ON j.id = e.job_id WHERE 1 = 1"
        if (yield sql.say(f"{text}{where}{fits} LIMIT 1", *values, returns=".")):
            return True
    return False


def _unserved(sql: Dialect, patterns: Sequence[str]) -> Flow[list[tuple[str, int]]]:
    fits, values = _fits(patterns)
    rows = yield sql.say(
        "SELECT DISTINCT e.queue_name, e.lane FROM steady_queue_readyexecution e"
        f" JOIN steady_queue_job j ON j.id = e.job_id WHERE e.lane NOT IN ({_SERVED}){fits}"
        " ORDER BY e.queue_name, e.lane LIMIT 100",
        *values,
        returns="..",
    )
    return [(str(row[0]), int(row[1])) for row in rows]


def _fits(patterns: Sequence[str]) -> tuple[str, list[object]]:
    """The condition that a queue's name fits one of the patterns, with its values."""
    if "*" in patterns:
        return "", []
    parts: list[str] = []
    values: list[object] = []
    for pattern in patterns:
        if "*" not in pattern:
            parts.append("j.queue_name = ?")
            values.append(pattern)
        elif pattern.index("*") == len(pattern) - 1:
            parts.append("SUBSTR(j.queue_name, 1, ?) = ?")
            values += [len(pattern) - 1, pattern[:-1]]
    return (f" AND ({' OR '.join(parts)})", values) if parts else (" AND 1 = 0", [])
