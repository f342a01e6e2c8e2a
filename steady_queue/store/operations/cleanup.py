"""Cleanup: jobs that ended long ago are deleted, window by window, the oldest first.

A window is a bounded piece of the index of the times at which jobs ended; each is a short transaction of its own.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from steady_queue.store.operations.actions import discarded, taken
from steady_queue.store.operations.promote import JOBS_PER_STATEMENT
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row

#: Rows in one window.
WINDOW_ROWS = 500
#: Before anything that any of the databases can store.
BEGINNING = datetime(1000, 1, 1, tzinfo=UTC)


class EndedFilter(NamedTuple):
    """Which jobs are to go: ended before a moment, or longer ago than a span of the database's time."""

    before: datetime | timedelta
    queue: str | None = None
    task_path: str | None = None


class CleanupPosition(NamedTuple):
    """The last job of a window, and when it ended: a text if it is stored as one that is no time (SQLite)."""

    ended_at: datetime | str = BEGINNING
    job_id: UUID = UUID(int=0)


class ClearedWindow(NamedTuple):
    """How many jobs a window lost, and where the next one begins; None at the end."""

    jobs: int
    next: CleanupPosition | None


class _Kind(NamedTuple):
    """The words for jobs that ended in one of the two ways."""

    source: str
    id: str
    ended_at: str


_FINISHED = _Kind("steady_queue_job j WHERE j.finished_at IS NOT NULL AND", "j.id", "j.finished_at")
_FAILED = _Kind(
    "steady_queue_failedexecution e JOIN steady_queue_job j ON j.id = e.job_id WHERE", "e.job_id", "e.failed_at"
)


def clear_finished(
    sql: Dialect, old: EndedFilter, place: CleanupPosition, size: int = WINDOW_ROWS
) -> Operation[ClearedWindow]:
    """Delete those of the next finished jobs that are to go."""
    return Operation("clear finished", partial(finished_cleared, sql, old, place, size))


def clear_failed(
    sql: Dialect, old: EndedFilter, place: CleanupPosition, size: int = WINDOW_ROWS
) -> Operation[ClearedWindow]:
    """Delete those of the next failed jobs that are to go."""
    return Operation("clear failed", partial(failed_cleared, sql, old, place, size))


def next_finished(sql: Dialect, old: EndedFilter, place: CleanupPosition) -> Operation[CleanupPosition | None]:
    """The place of the next finished job that is to go."""
    return Operation("next finished", partial(_next, sql, old, _FINISHED, place), transaction=False)


def next_failed(sql: Dialect, old: EndedFilter, place: CleanupPosition) -> Operation[CleanupPosition | None]:
    """The place of the next failed job that is to go."""
    return Operation("next failed", partial(_next, sql, old, _FAILED, place), transaction=False)


def count_finished(sql: Dialect, old: EndedFilter) -> Operation[int]:
    """How many finished jobs are to go."""
    return Operation("count finished", partial(_count, sql, old, _FINISHED), transaction=False)


def count_failed(sql: Dialect, old: EndedFilter) -> Operation[int]:
    """How many failed jobs are to go."""
    return Operation("count failed", partial(_count, sql, old, _FAILED), transaction=False)


def subtract_span(now: datetime, span: timedelta) -> datetime:
    """When a span began that ends now, however long it is."""
    try:
        return max(now - span, BEGINNING)
    except OverflowError:
        return BEGINNING


def finished_cleared(sql: Dialect, old: EndedFilter, place: CleanupPosition, size: int) -> Flow[ClearedWindow]:
    ids, after = yield from _window(sql, old, _FINISHED, place, size)
    if not ids:
        return ClearedWindow(0, after)
    # What somebody else clears at this moment is theirs to count.
    rows = yield sql.say(f"SELECT id FROM steady_queue_job WHERE id IN ?*{sql.take_free}", ids, returns="u")
    if rows:
        yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", [row[0] for row in rows])
    return ClearedWindow(len(rows), after)


def failed_cleared(sql: Dialect, old: EndedFilter, place: CleanupPosition, size: int) -> Flow[ClearedWindow]:
    ids, after = yield from _window(sql, old, _FAILED, place, size)
    # Held, and then looked at once more: it may have been retried meanwhile, and have failed again this moment.
    ids = yield from taken(sql, "failedexecution", ids)
    if ids:
        rows = yield sql.say(
            "SELECT job_id FROM steady_queue_failedexecution WHERE job_id IN ?* AND failed_at < ?",
            *(ids, (yield from _moment(sql, old.before))),
            returns="u",
        )
        ids = [row[0] for row in rows]
    revised = yield from discarded(sql, ids, {}, True, ("failedexecution",))
    return ClearedWindow(len(revised.ids), after)


def _window(
    sql: Dialect, old: EndedFilter, kind: _Kind, place: CleanupPosition, size: int
) -> Flow[tuple[list[UUID], CleanupPosition | None]]:
    """The next jobs of this kind before the moment, only those that are to go; and where the window ends."""
    size = min(size, JOBS_PER_STATEMENT)
    rows = yield from _read(sql, old, kind, place, size, "ut..")
    ids = [id_ for id_, _, queue, path in rows if old.queue in (None, queue) and old.task_path in (None, path)]
    return ids, CleanupPosition(rows[-1][1], rows[-1][0]) if len(rows) == size else None


def _read(
    sql: Dialect, old: EndedFilter, kind: _Kind, place: CleanupPosition, size: int, returns: str
) -> Flow[list[Row]]:
    before = yield from _moment(sql, old.before)
    columns = f"{kind.id}, {kind.ended_at}, j.queue_name, j.task_path"
    rows = yield sql.say(
        f"SELECT {columns} FROM {kind.source} {kind.ended_at} >= ? AND {kind.ended_at} < ?"
        f" AND ({kind.ended_at} > ? OR {kind.id} > ?) ORDER BY {kind.ended_at}, {kind.id} LIMIT ?",
        *(place.ended_at, before, place.ended_at, place.job_id, size),
        returns=returns,
    )
    return rows


def _next(sql: Dialect, old: EndedFilter, kind: _Kind, place: CleanupPosition) -> Flow[CleanupPosition | None]:
    rows = yield from _read(sql, old, kind, place, 1, "um..")
    return CleanupPosition(rows[0][1], rows[0][0]) if rows else None


def _count(sql: Dialect, old: EndedFilter, kind: _Kind) -> Flow[int]:
    before = yield from _moment(sql, old.before)
    filters: Sequence[tuple[str, Any]] = [
        (f"{kind.ended_at} < ?", before),
        *([("j.queue_name = ?", old.queue)] if old.queue is not None else []),
        *([("j.task_path = ?", old.task_path)] if old.task_path is not None else []),
    ]
    rows = yield sql.say(
        f"SELECT count(*) FROM {kind.source} {' AND '.join(text for text, _ in filters)}",
        *(value for _, value in filters),
        returns=".",
    )
    return int(rows[0][0])


def _moment(sql: Dialect, before: datetime | timedelta) -> Flow[datetime]:
    """The moment that is meant, by the database's time."""
    if isinstance(before, datetime):
        return max(before, BEGINNING)
    rows = yield sql.say(f"SELECT {sql.now}", returns="t")
    return subtract_span(rows[0][0], before)
