"""Dispatch: scheduled jobs whose time has come become ready, or blocked when they are limited."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import OnConflict
from steady_queue.store.operations.promote import (
    JOBS_PER_STATEMENT,
    discard_refused,
    insert_blocked,
    limit_in_force,
    make_ready,
    promote,
)
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Dispatched(NamedTuple):
    """How many jobs were moved, and which of them were discarded for want of a slot."""

    moved: int
    discarded: frozenset[UUID] = frozenset()


def dispatch(sql: Dialect, limit: int, limits: Limits | None = None, *, past: int = 0) -> Operation[Dispatched]:
    """Move up to `limit` due jobs: the longest due first, then by priority. Several dispatchers share the work.

    `past` steps over the first so many, which could not be moved. Never more are moved than a statement takes.
    """
    return Operation("dispatch", partial(_dispatch, sql, min(limit, JOBS_PER_STATEMENT), limits or {}, past))


def next_due(sql: Dialect) -> Operation[float | None]:
    """In how many seconds of the database's time the next scheduled job is due; None without one."""
    return Operation("next due", partial(_next_due, sql), transaction=False)


def _dispatch(sql: Dialect, limit: int, limits: Limits, past: int) -> Flow[Dispatched]:
    rows = yield sql.say(
        f"SELECT job_id FROM {sql.scheduled_due} WHERE scheduled_at <= {sql.now}"
        f" ORDER BY scheduled_at, priority DESC, job_id LIMIT ?{' OFFSET ?' if past else ''}{sql.take_free}",
        *((limit, past) if past else (limit,)),
        returns="u",
    )
    due = [row[0] for row in rows]
    if not due:
        return Dispatched(0)
    rows = yield sql.say(
        "SELECT id, concurrency_key, concurrency_limit, priority, on_conflict, task_path FROM steady_queue_job"
        " WHERE id IN ?*",
        due,
        returns="u.....",
    )
    yield sql.say("DELETE FROM steady_queue_scheduledexecution WHERE job_id IN ?*", due)
    free = [row[0] for row in rows if row[1] is None]
    if free:
        yield make_ready(sql, free)
    limited = [row for row in rows if row[1] is not None]
    if not limited:
        return Dispatched(len(due))
    yield insert_blocked(sql, [(job_id, key, priority) for job_id, key, _, priority, *_ in limited])
    yield from promote(sql, {key: limit_in_force(limits, path, stored) for _, key, stored, *_, path in limited}, limits)
    choosy = [job_id for job_id, _, _, _, on_conflict, _ in limited if on_conflict == OnConflict.DISCARD]
    return Dispatched(len(due), (yield from discard_refused(sql, choosy)))


def _next_due(sql: Dialect) -> Flow[float | None]:
    rows = yield sql.say(
        f"SELECT scheduled_at, {sql.now} FROM {sql.scheduled_due} ORDER BY scheduled_at, priority DESC, job_id LIMIT 1",
        returns="tt",
    )
    return max(0.0, (rows[0][0] - rows[0][1]).total_seconds()) if rows else None
