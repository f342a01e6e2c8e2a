"""Dispatch: scheduled jobs that are due become ready, or blocked when they are limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import OnConflict
from steady_queue.store.operations.expiry import end_expired, is_expired
from steady_queue.store.operations.promote import (
    JOBS_PER_STATEMENT,
    NO_LIMITS,
    discard_without_slot,
    insert_blocked,
    insert_ready,
    limit_in_force,
    promote,
)
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Dispatched(NamedTuple):
    """How many jobs were moved, and which of them were discarded because their key had no free slot."""

    moved: int
    discarded: frozenset[UUID] = frozenset()


@operation()
def dispatch(sql: Dialect, limit: int, limits: Limits = NO_LIMITS, *, past: int = 0) -> Flow[Dispatched]:
    """Move up to `limit` due jobs: the earliest first, then by priority. Several dispatchers share the work.

    `past` skips that many of the first jobs, which could not be moved. At most JOBS_PER_STATEMENT are moved.
    """
    limit = min(limit, JOBS_PER_STATEMENT)
    rows = yield sql.statement(
        f"SELECT job_id FROM {sql.scheduled_due} WHERE scheduled_at <= {sql.now}"
        " ORDER BY scheduled_at, priority DESC, job_id"
        f" LIMIT ?{' OFFSET ?' if past else ''}{sql.for_update_skip_locked}",
        *((limit, past) if past else (limit,)),
        returns="u",
    )
    due = [row[0] for row in rows]
    if not due:
        return Dispatched(0)
    columns = f"id, concurrency_key, concurrency_limit, priority, on_conflict, task_path, {is_expired(sql)}"
    rows = yield sql.select("job", columns, due, returns="u......")
    yield sql.delete("scheduledexecution", due)
    if expired := [row[0] for row in rows if row[6]]:
        yield from end_expired(sql, expired)
        rows = [row for row in rows if not row[6]]
    unlimited = [row[0] for row in rows if row[1] is None]
    if unlimited:
        yield insert_ready(sql, unlimited)
    limited = [row for row in rows if row[1] is not None]
    if not limited:
        return Dispatched(len(due))
    yield insert_blocked(sql, [(job_id, key, priority) for job_id, key, _, priority, *_ in limited])
    keys = {key: limit_in_force(limits, path, stored) for _, key, stored, _, _, path, _ in limited}
    yield from promote.flow(sql, keys, limits)
    discardable = [job_id for job_id, _, _, _, on_conflict, *_ in limited if on_conflict == OnConflict.DISCARD]
    return Dispatched(len(due), (yield from discard_without_slot(sql, discardable)))


@operation(transaction=False)
def next_due(sql: Dialect) -> Flow[float | None]:
    """Seconds, by the database's time, until the next scheduled job is due; None without one."""
    rows = yield sql.statement(
        f"SELECT scheduled_at, {sql.now} FROM {sql.scheduled_due} ORDER BY scheduled_at, priority DESC, job_id LIMIT 1",
        returns="tt",
    )
    return max(0.0, (rows[0][0] - rows[0][1]).total_seconds()) if rows else None
