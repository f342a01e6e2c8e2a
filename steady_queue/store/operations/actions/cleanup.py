"""Cleanup: delete jobs that ended long ago, in windows, the oldest first.

A window is a limited part of the index of the times at which jobs ended; each is a short transaction of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from steady_queue.store.operations.actions.job_actions import discard, lock_executions
from steady_queue.store.operations.promote import JOBS_PER_STATEMENT
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row

WINDOW_ROWS = 500
#: Before any time that the databases can store.
BEGINNING = datetime(1000, 1, 1, tzinfo=UTC)


class EndedFilter(NamedTuple):
    """The jobs to delete: those that ended before a time, or longer ago, by the database's time, than a timedelta."""

    before: datetime | timedelta
    queue: str | None = None
    task_path: str | None = None


class CleanupPosition(NamedTuple):
    """The last job of a window, and when it ended: a str if the column has a text that is no time (SQLite)."""

    ended_at: datetime | str = BEGINNING
    job_id: UUID = UUID(int=0)


class ClearedWindow(NamedTuple):
    """How many jobs of a window were deleted, and where the next one begins; None at the end."""

    jobs: int
    next: CleanupPosition | None


class _Source(NamedTuple):
    """Where the jobs are that ended in one of the two ways."""

    table: str
    id: str
    ended_at: str


_FINISHED = _Source("steady_queue_job j WHERE j.finished_at IS NOT NULL AND", "j.id", "j.finished_at")
_FAILED = _Source(
    "steady_queue_failedexecution e JOIN steady_queue_job j ON j.id = e.job_id WHERE", "e.job_id", "e.failed_at"
)


@operation()
def clear_finished(
    sql: Dialect, ended: EndedFilter, position: CleanupPosition, size: int = WINDOW_ROWS
) -> Flow[ClearedWindow]:
    """Delete the finished jobs of the next window that match the filter."""
    ids, after = yield from _read_window(sql, ended, _FINISHED, position, size)
    if not ids:
        return ClearedWindow(0, after)
    # Jobs that another process deletes at this moment are counted by that process.
    rows = yield sql.lock("job", "id", ids, skip_locked=True, returns="u")
    if rows:
        yield sql.delete("job", [row[0] for row in rows])
    return ClearedWindow(len(rows), after)


@operation()
def clear_failed(
    sql: Dialect, ended: EndedFilter, position: CleanupPosition, size: int = WINDOW_ROWS
) -> Flow[ClearedWindow]:
    """Delete the failed jobs of the next window that match the filter."""
    ids, after = yield from _read_window(sql, ended, _FAILED, position, size)
    # Locked, and then read again: the job may have been retried meanwhile, and have failed again this moment.
    ids = yield from lock_executions(sql, "failedexecution", ids)
    if ids:
        rows = yield sql.statement(
            f"SELECT job_id FROM steady_queue_failedexecution{sql.by_id} WHERE job_id IN ?* AND failed_at < ?",
            *(ids, (yield from _resolve_time(sql, ended.before))),
            returns="u",
        )
        ids = [row[0] for row in rows]
    result = yield from discard.flow(sql, ids, tables=("failedexecution",))
    return ClearedWindow(len(result.ids), after)


@operation(transaction=False)
def next_finished(sql: Dialect, ended: EndedFilter, position: CleanupPosition) -> Flow[CleanupPosition | None]:
    """The position of the next finished job before the filter's time."""
    return (yield from _find_next(sql, ended, _FINISHED, position))


@operation(transaction=False)
def next_failed(sql: Dialect, ended: EndedFilter, position: CleanupPosition) -> Flow[CleanupPosition | None]:
    """The position of the next failed job before the filter's time."""
    return (yield from _find_next(sql, ended, _FAILED, position))


@operation(transaction=False)
def count_finished(sql: Dialect, ended: EndedFilter) -> Flow[int]:
    """How many finished jobs match the filter."""
    return (yield from _count(sql, ended, _FINISHED))


@operation(transaction=False)
def count_failed(sql: Dialect, ended: EndedFilter) -> Flow[int]:
    """How many failed jobs match the filter."""
    return (yield from _count(sql, ended, _FAILED))


def subtract_span(now: datetime, span: timedelta) -> datetime:
    """The time `span` before now, or BEGINNING if that is later."""
    try:
        return max(now - span, BEGINNING)
    except OverflowError:
        return BEGINNING


def _read_window(
    sql: Dialect, ended: EndedFilter, source: _Source, position: CleanupPosition, size: int
) -> Flow[tuple[list[UUID], CleanupPosition | None]]:
    """The matching jobs of the next window, and where the window ends."""
    size = min(size, JOBS_PER_STATEMENT)
    rows = yield from _read(sql, ended, source, position, size, "ut..")
    ids = [id_ for id_, _, queue, path in rows if ended.queue in (None, queue) and ended.task_path in (None, path)]
    return ids, CleanupPosition(rows[-1][1], rows[-1][0]) if len(rows) == size else None


def _read(
    sql: Dialect, ended: EndedFilter, source: _Source, position: CleanupPosition, size: int, returns: str
) -> Flow[list[Row]]:
    before = yield from _resolve_time(sql, ended.before)
    columns = f"{source.id}, {source.ended_at}, j.queue_name, j.task_path"
    rows = yield sql.statement(
        f"SELECT {columns} FROM {source.table} {source.ended_at} >= ? AND {source.ended_at} < ?"
        f" AND ({source.ended_at} > ? OR {source.id} > ?) ORDER BY {source.ended_at}, {source.id} LIMIT ?",
        *(position.ended_at, before, position.ended_at, position.job_id, size),
        returns=returns,
    )
    return rows


def _find_next(
    sql: Dialect, ended: EndedFilter, source: _Source, position: CleanupPosition
) -> Flow[CleanupPosition | None]:
    rows = yield from _read(sql, ended, source, position, 1, "um..")
    return CleanupPosition(rows[0][1], rows[0][0]) if rows else None


def _count(sql: Dialect, ended: EndedFilter, source: _Source) -> Flow[int]:
    before = yield from _resolve_time(sql, ended.before)
    conditions: Sequence[tuple[str, Any]] = [
        (f"{source.ended_at} < ?", before),
        *([("j.queue_name = ?", ended.queue)] if ended.queue is not None else []),
        *([("j.task_path = ?", ended.task_path)] if ended.task_path is not None else []),
    ]
    rows = yield sql.statement(
        f"SELECT count(*) FROM {source.table} {' AND '.join(text for text, _ in conditions)}",
        *(value for _, value in conditions),
        returns=".",
    )
    return int(rows[0][0])


def _resolve_time(sql: Dialect, before: datetime | timedelta) -> Flow[datetime]:
    """The time itself, or the time that long ago by the database's clock."""
    if isinstance(before, datetime):
        return max(before, BEGINNING)
    rows = yield sql.statement(f"SELECT {sql.now}", returns="t")
    return subtract_span(rows[0][0], before)
