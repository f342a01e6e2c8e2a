"""Remainder: whether some queues still have anything to do, now or within a moment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.job import SERVED_LANES
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


_SERVED = ", ".join(f"{lane:d}" for lane in SERVED_LANES)


def remains(sql: Dialect, patterns: Sequence[str], *, within: float, is_dispatched: bool = True) -> Operation[bool]:
    """Whether a job in queues of these patterns is ready, blocked, claimed, or due within so many seconds.

    What is ready or blocked in a paused queue does not count: nobody will run it. Neither does what is ready in a lane
    that no worker of this version has: a newer version may run it, and perhaps never comes. Without a dispatcher of the
    caller's own (`is_dispatched`), neither does what has been due for that long: others would have moved it.
    """
    return Operation("remains", partial(_remains, sql, list(patterns), within, is_dispatched), transaction=False)


def unserved(sql: Dialect, patterns: Sequence[str]) -> Operation[list[tuple[str, int]]]:
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
