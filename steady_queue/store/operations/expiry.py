"""Expiry: a job that was not started in time never runs, and ends as failed.

It is refused when it is claimed, dispatched or promoted. What waits elsewhere, in a paused queue for example, is ended
by maintenance, which reads the `expiry` table in the order of its times. Only jobs that expire have a row there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.errors import TaskExpired
from steady_queue.store.job import FailureKind
from steady_queue.store.operations.endings import fail_unclaimed
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: What a job fails with.
EXPIRED = report(TaskExpired, "the task was not started before it expired")


class ExpiringJob(NamedTuple):
    """A job of the expiry table, and whether it may still be ended: it has neither been started nor retried by hand."""

    id: UUID
    is_expired: bool


def is_expired(sql: Dialect, job: str = "") -> str:
    """The condition, as a column, that a job has expired: its time has passed, and no attempt of it has ended."""
    return f"CASE WHEN {job}expires_at <= {sql.now} AND {job}attempts = 0 THEN 1 ELSE 0 END"


def insert_expiries(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    """A row for each of the jobs that expires."""
    if rows := [(job.id, job.expires_at) for job in jobs if job.expires_at is not None]:
        yield sql.statement_each("INSERT INTO steady_queue_expiry (job_id, expires_at) VALUES (?, ?)", rows)


def end_expired(sql: Dialect, ids: Sequence[UUID]) -> Flow[None]:
    """Fail jobs that have expired, whose execution rows were deleted."""
    yield from fail_unclaimed(sql, ids, EXPIRED, FailureKind.EXPIRED)


def keep_from_expiring(sql: Dialect, ids: Sequence[UUID]) -> Flow[None]:
    """The jobs have been started, although no attempt was counted."""
    if ids:
        text = f"UPDATE steady_queue_job{sql.by_id} SET expires_at = NULL WHERE id IN ?*"
        yield sql.statement(text, list(ids))


def find_passed(sql: Dialect, count: int) -> Flow[list[ExpiringJob]]:
    """The jobs whose time has passed, the earliest first."""
    rows = yield sql.statement(
        f"SELECT job_id FROM {sql.expiry_by_time} WHERE expires_at <= {sql.now} ORDER BY expires_at LIMIT ?",
        count,
        returns="u",
    )
    ids = [row[0] for row in rows]
    if not ids:
        return []
    rows = yield sql.select("job", f"id, {is_expired(sql)}", ids, returns="ui")
    expired = {row[0] for row in rows if row[1]}
    return [ExpiringJob(id_, id_ in expired) for id_ in ids]
