"""Queues: names, size, latency, pause and resume, and whether queues still have jobs to run.

The names are found by index lookups, without reading the jobs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import SERVED_LANES, Lane
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.queue_selection import QueueSelection
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

HIGHEST_PRIORITY = 32767
_SERVED = ", ".join(f"{lane:d}" for lane in SERVED_LANES)


class WaitingQueues(NamedTuple):
    """The queues from which jobs can be claimed."""

    #: The names of the queues that are not paused and have ready jobs, in order, by lane.
    names: dict[int, list[str]]
    #: Whether any queue is paused.
    is_paused: bool


@operation(transaction=False)
def find_queue_names(sql: Dialect) -> Flow[list[str]]:
    """The names of the queues that have ready jobs, in order: one index lookup for each name."""
    return (yield from sql.queue_names())


@operation(transaction=False)
def find_waiting_queues(sql: Dialect) -> Flow[WaitingQueues]:
    """The queues in which a worker may find jobs: a few index lookups for each name, and one round trip."""
    rows = yield from sql.waiting_queues()
    names: dict[int, list[str]] = {lane: [] for lane in Lane}
    is_paused = False
    for name, lane in rows:
        if name is None:
            is_paused = True
        elif lane in names:  # no worker of this version runs other lanes, of a newer version or edited by a person
            names[lane].append(name)
    # Python sorts strings by code points, which is the order of their bytes.
    return WaitingQueues({lane: sorted(its) for lane, its in names.items()}, is_paused)


@operation(transaction=False)
def read_change_marker(sql: Dialect) -> Flow[int | None]:
    """A number that changes when another connection has written; None where the database has no such number."""
    if not sql.change_marker:
        return None
    rows = yield sql.statement(sql.change_marker, returns=".")
    return int(rows[0][0])


@operation(transaction=False)
def size(sql: Dialect, queue: str) -> Flow[int]:
    """How many ready jobs a queue has."""
    rows = yield sql.statement(f"SELECT count(*) FROM {sql.ready_by_queue} WHERE queue_name = ?", queue, returns=".")
    return int(rows[0][0])


@operation(transaction=False)
def count_waiting(sql: Dialect, selections: Sequence[QueueSelection], *, at_most: int) -> Flow[int]:
    """How many ready jobs these queues have, counted up to `at_most`: a larger number costs no more than that.

    The names of the queues are found by index lookups, so that queues of other workers cost nothing.
    """
    where, names = "", []
    if not any(selection.takes_all and not selection.excluded for selection in selections):
        found = yield from sql.queue_names()
        names = [name for name in found if any(selection.serves(name) for selection in selections)]
        if not names:
            return 0
        where = " WHERE queue_name IN ?*"
    first = f"SELECT 1 FROM {sql.ready_by_queue}{where} LIMIT {at_most:d}"
    rows = yield sql.statement(f"SELECT count(*) FROM ({first}) t", *([names] if names else []), returns=".")
    return int(rows[0][0])


@operation(transaction=False)
def latency(sql: Dialect, queue: str) -> Flow[timedelta | None]:
    """The longest time, by the database's clock, that one of the next jobs has waited; None when none is ready.

    The next jobs are the first of each lane and priority: found by index lookups, however many jobs wait behind them.
    """
    first: list[UUID] = []
    for lane in Lane:
        priority = yield from next_priority(sql, queue, lane)
        while priority is not None:
            rows = yield sql.statement(
                f"SELECT job_id FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority = ?"
                " ORDER BY job_id LIMIT 1",
                *(queue, lane, priority),
                returns="u",
            )
            first.extend(row[0] for row in rows)
            priority = yield from next_priority(sql, queue, lane, priority)
    if not first:
        return None
    rows = yield sql.select("job", f"enqueued_at, scheduled_at, {sql.now}", first, returns="ttt")
    # The clocks of the enqueuer and the database differ: no wait is shorter than zero.
    waits: list[timedelta] = [now - (scheduled_at or enqueued_at) for enqueued_at, scheduled_at, now in rows]
    return max([*waits, timedelta(0)]) if waits else None


@operation()
def pause(sql: Dialect, queue: str) -> Flow[bool]:
    """Stop claims from a queue; returns whether it was not paused before."""
    if (yield from find_paused_queues.flow(sql, queue)):
        return False
    yield sql.statement(sql.insert_new(f"steady_queue_pause (queue_name, created_at) VALUES (?, {sql.now})"), queue)
    return True


@operation()
def resume(sql: Dialect, queue: str) -> Flow[bool]:
    """Allow claims from a queue again; returns whether it was paused."""
    if not (yield from find_paused_queues.flow(sql, queue)):
        return False
    yield sql.statement("DELETE FROM steady_queue_pause WHERE queue_name = ?", queue)
    return True


@operation(transaction=False)
def find_paused_queues(sql: Dialect, queue: str | None = None) -> Flow[list[str]]:
    """The names of the paused queues, in order; with `queue`, its name if it is paused."""
    text = "SELECT p.queue_name FROM steady_queue_pause p"
    if queue is None:
        rows = yield sql.statement(f"{text} ORDER BY p.queue_name", returns=".")
    else:
        rows = yield sql.statement(
            f"{text}{sql.by_id} WHERE p.queue_name = ? ORDER BY p.queue_name", queue, returns="."
        )
    return [row[0] for row in rows]


@operation(transaction=False)
def has_remaining_jobs(
    sql: Dialect, selections: Sequence[QueueSelection], *, within: float, is_dispatched: bool = True
) -> Flow[bool]:
    """Whether a job in these queues is ready, blocked, claimed, or due within this many seconds.

    Ready and blocked jobs of a paused queue do not count: no worker runs them. Neither do ready jobs of a lane that no
    worker of this version runs: a worker of a newer version may run them, or may never start. If the caller has no
    dispatcher (`is_dispatched` is false), neither do jobs that have been due for that long: other dispatchers would
    have moved them.
    """
    matches, values = _match(selections)
    not_paused = f" AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p{sql.by_id} WHERE p.queue_name = j.queue_name)"
    due = f" AND e.scheduled_at < {sql.ago(-within)}"
    if not is_dispatched:
        due += f" AND e.scheduled_at > {sql.ago(within)}"
    # In the order in which jobs move: a job that moves meanwhile is found in a later table.
    for table, where in (
        ("scheduledexecution", due),
        ("blockedexecution", not_paused),
        ("readyexecution", f"{not_paused} AND e.lane IN ({_SERVED})"),
        ("claimedexecution", ""),
    ):
        text = f"SELECT 1 FROM steady_queue_{table} e JOIN steady_queue_job j ON j.id = e.job_id WHERE 1 = 1"
        if (yield sql.statement(f"{text}{where}{matches} LIMIT 1", *values, returns=".")):
            return True
    return False


@operation(transaction=False)
def find_unserved_queues(sql: Dialect, selections: Sequence[QueueSelection]) -> Flow[list[tuple[str, int]]]:
    """Each of these queues that has ready jobs in a lane that no worker of this version runs, with that lane."""
    matches, values = _match(selections)
    rows = yield sql.statement(
        "SELECT DISTINCT e.queue_name, e.lane FROM steady_queue_readyexecution e"
        f" JOIN steady_queue_job j ON j.id = e.job_id WHERE e.lane NOT IN ({_SERVED}){matches}"
        " ORDER BY e.queue_name, e.lane LIMIT 100",
        *values,
        returns="..",
    )
    return [(str(row[0]), int(row[1])) for row in rows]


def next_priority(sql: Dialect, queue: str, lane: int, below: int = HIGHEST_PRIORITY) -> Flow[int | None]:
    """The next lower priority of the ready jobs of a queue and lane."""
    rows = yield sql.statement(
        f"SELECT priority FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority < ?"
        " ORDER BY priority DESC LIMIT 1",
        *(queue, lane, below),
        returns=".",
    )
    return rows[0][0] if rows else None


def _match(selections: Sequence[QueueSelection]) -> tuple[str, list[object]]:
    """The condition that a queue is in one of the selections, with its values."""
    parts: list[str] = []
    values: list[object] = []
    for selection in selections:
        part, its_values = _match_patterns(selection.patterns)
        if selection.excluded:
            without, excluded_values = _match_patterns(selection.excluded)
            part, its_values = f"({part}) AND NOT ({without})", [*its_values, *excluded_values]
        elif selection.takes_all:
            return "", []
        parts.append(f"({part})")
        values += its_values
    return f" AND ({' OR '.join(parts) or '1 = 0'})", values


def _match_patterns(patterns: Sequence[str]) -> tuple[str, list[object]]:
    """The condition that a queue's name matches one of the patterns, with its values."""
    if "*" in patterns:
        return "1 = 1", []
    parts: list[str] = []
    values: list[object] = []
    for pattern in patterns:
        if "*" not in pattern:
            parts.append("j.queue_name = ?")
            values.append(pattern)
        elif pattern.index("*") == len(pattern) - 1:
            parts.append("SUBSTR(j.queue_name, 1, ?) = ?")
            values += [len(pattern) - 1, pattern[:-1]]
    return (" OR ".join(parts), values) if parts else ("1 = 0", [])
