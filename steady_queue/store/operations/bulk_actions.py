"""Sweep: retry or discard whatever answers a description, window by window.

Each window is a bounded piece of a table, walked in the order of an index, in a transaction of its own: so a sweep over
a million rows needs little memory, holds nobody up, and goes on where it was when it is begun again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from steady_queue.store.job import Lane
from steady_queue.store.operations.actions import UNCHANGED, ActionResult, discarded, retried, taken
from steady_queue.store.operations.queues import HIGHEST_PRIORITY, next_priority
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from steady_queue.store.job import Status
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Rows in one window.
WINDOW_ROWS = 500
_LEAST = UUID(int=0)


class JobFilter(NamedTuple):
    """A description of jobs; what is left out may be anything. The last three are about failures."""

    queue: str | None = None
    task_path: str | None = None
    exception_class: str | None = None
    failed_before: datetime | None = None
    failed_after: datetime | None = None


class Position(NamedTuple):
    """Where a window ended; the lane and priority count where the ready jobs of one queue are walked."""

    job_id: UUID = _LEAST
    lane: int = 0
    priority: int = HIGHEST_PRIORITY


class WindowResult(NamedTuple):
    """What became of a window, and where the next one begins; None at the end."""

    result: ActionResult
    next: Position | None


def retry_window(
    sql: Dialect,
    which: JobFilter,
    place: Position,
    limits: Limits | None = None,
    *,
    size: int = WINDOW_ROWS,
    promoting: bool = True,
) -> Operation[WindowResult]:
    """Retry those of the next failed jobs that answer the description."""
    return Operation("retry some", partial(_retry_some, sql, which, place, limits or {}, size, promoting))


def discard_window(
    sql: Dialect,
    status: Status,
    which: JobFilter,
    place: Position,
    limits: Limits | None = None,
    *,
    spare: Collection[UUID] = (),
    size: int = WINDOW_ROWS,
    promoting: bool = True,
) -> Operation[WindowResult]:
    """Discard those of the next jobs with this status that answer the description, but for some."""
    flow = partial(_discard_some, sql, status, which, place, limits or {}, spare, size, promoting)
    return Operation("discard some", flow)


def _retry_some(
    sql: Dialect, which: JobFilter, place: Position, limits: Limits, size: int, promoting: bool
) -> Flow[WindowResult]:
    ids, after = yield from _by_id(sql, "failedexecution", place, size)
    chosen = yield from _chosen(sql, "failedexecution", ids, which)
    revised = (yield from retried(sql, chosen, limits, promoting)) if chosen else UNCHANGED
    return WindowResult(revised, after)


def _discard_some(
    sql: Dialect,
    status: Status,
    which: JobFilter,
    place: Position,
    limits: Limits,
    spare: Collection[UUID],
    size: int,
    promoting: bool,
) -> Flow[WindowResult]:
    table = f"{status}execution"
    if table == "readyexecution" and which.queue is not None:
        ids, after = yield from _by_queue(sql, which.queue, place, size)
        which = which._replace(queue=None)
    else:
        ids, after = yield from _by_id(sql, table, place, size)
    chosen = yield from _chosen(sql, table, [id_ for id_ in ids if id_ not in spare], which)
    revised = (yield from discarded(sql, chosen, limits, promoting, (table,))) if chosen else UNCHANGED
    return WindowResult(revised, after)


def _by_id(sql: Dialect, table: str, place: Position, size: int) -> Flow[tuple[list[UUID], Position | None]]:
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_{table} WHERE job_id > ? ORDER BY job_id LIMIT ?",
        place.job_id,
        size,
        returns="u",
    )
    ids = [row[0] for row in rows]
    return ids, Position(ids[-1]) if len(ids) == size else None


def _by_queue(sql: Dialect, queue: str, place: Position, size: int) -> Flow[tuple[list[UUID], Position | None]]:
    """The next ready jobs of a queue, in the order of its index: other queues are not read."""
    ids: list[UUID] = []
    last, lane, priority = place
    while True:
        rows = yield sql.say(
            f"SELECT job_id FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority = ?"
            " AND job_id > ? ORDER BY job_id LIMIT ?",
            *(queue, lane, priority, last, size - len(ids)),
            returns="u",
        )
        ids.extend(row[0] for row in rows)
        if len(ids) == size:
            return ids, Position(ids[-1], lane, priority)
        last = _LEAST
        lower = yield from next_priority(sql, queue, lane, priority)
        if lower is not None:
            priority = lower
        elif lane + 1 < len(Lane):
            lane, priority = lane + 1, HIGHEST_PRIORITY
        else:
            return ids, None


def _chosen(sql: Dialect, table: str, ids: Sequence[UUID], which: JobFilter) -> Flow[list[UUID]]:
    """Those of the jobs that answer the description."""
    of_job = {"queue_name = ?": which.queue, "task_path = ?": which.task_path}
    of_failure = {
        "exception_class = ?": which.exception_class,
        "failed_at < ?": which.failed_before,
        "failed_at > ?": which.failed_after,
    }
    source = f"job_id FROM steady_queue_{table} WHERE job_id"
    left = yield from _filtered(sql, source, ids, of_failure)
    left = yield from _filtered(sql, "id FROM steady_queue_job WHERE id", left, of_job)
    if left and any(value is not None for value in of_failure.values()):
        # Held, and then looked at once more: it may have been retried meanwhile, and have failed in another way.
        left = yield from taken(sql, table, left)
        left = yield from _filtered(sql, source, left, of_failure)
    return left


def _filtered(sql: Dialect, source: str, ids: Sequence[UUID], conditions: Mapping[str, Any]) -> Flow[list[UUID]]:
    given = {text: value for text, value in conditions.items() if value is not None}
    if not ids or not given:
        return list(ids)
    text = f"SELECT {source} IN ?* AND {' AND '.join(given)}"
    rows = yield sql.say(text, list(ids), *given.values(), returns="u")
    return sorted(row[0] for row in rows)
