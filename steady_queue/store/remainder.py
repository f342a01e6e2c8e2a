"""Remainder: whether some queues still have anything to do, now or within a moment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


def remains(sql: Dialect, patterns: Sequence[str], *, within: float, is_dispatched: bool = True) -> Operation[bool]:
    """Whether a job in queues of these patterns is ready, blocked, claimed, or due within so many seconds.

    What is ready or blocked in a paused queue does not count: nobody will run it. Without a dispatcher of the caller's
    own (`is_dispatched`), neither does what has been due for that long: others would have moved it.
    """
    return Operation("remains", partial(_remains, sql, list(patterns), within, is_dispatched), transaction=False)


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
        ("readyexecution", not_paused),
        ("claimedexecution", ""),
    ):
        text = f"SELECT 1 FROM steady_queue_{table} e JOIN steady_queue_job j ON j.id = e.job_id WHERE 1 = 1"
        if (yield sql.say(f"{text}{where}{fits} LIMIT 1", *values, returns=".")):
            return True
    return False


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
