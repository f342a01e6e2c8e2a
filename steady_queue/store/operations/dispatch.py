"""Dispatch: scheduled jobs that are due become ready, or blocked when they are limited.

`poll_scheduled` moves plain jobs, which are neither limited nor expired, where one statement can do that. `dispatch`
moves jobs of every kind, in a transaction.
"""

from __future__ import annotations

from datetime import UTC, datetime
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

#: The first time that every server can represent. As a condition it makes the planners look the first row up.
_EARLIEST = datetime(1000, 1, 1, tzinfo=UTC)


class Dispatched(NamedTuple):
    """How many jobs were moved, and which of them were discarded because their key had no free slot."""

    moved: int
    discarded: frozenset[UUID] = frozenset()


class ScheduledPoll(NamedTuple):
    """What a poll has moved, and in how many seconds the next of the other jobs is due; None without one."""

    moved: int
    due_in_seconds: float | None
    #: Whether it has moved as many as it may: there may be more jobs like these.
    is_full: bool = False

    @property
    def is_due(self) -> bool:
        """Whether a job is due that was not moved: it is limited, has expired, or another dispatcher has locked it."""
        return self.due_in_seconds is not None and self.due_in_seconds <= 0


@operation(transaction=False)
def poll_scheduled(sql: Dialect, limit: int) -> Flow[ScheduledPoll]:
    """Find when the next job is due; on PostgreSQL also move the plain ones among the first `limit` due jobs."""
    if not sql.single_statements:
        return ScheduledPoll(0, (yield from next_due.flow(sql)))
    limit = min(limit, JOBS_PER_STATEMENT)
    rows = yield sql.single_statements.move_due(limit)
    moved, next_at, now = rows[0]
    return ScheduledPoll(moved, _seconds_until(next_at, now), moved == limit)


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
        f"SELECT scheduled_at, {sql.now} FROM {sql.scheduled_due} WHERE scheduled_at >= ?"
        " ORDER BY scheduled_at, priority DESC, job_id LIMIT 1",
        _EARLIEST,
        returns="tt",
    )
    return _seconds_until(*rows[0]) if rows else None


def _seconds_until(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else max(0.0, (at - now).total_seconds())
