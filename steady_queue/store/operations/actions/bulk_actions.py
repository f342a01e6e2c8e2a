"""Bulk actions: retry, discard or cancel all jobs that match a filter, in windows.

Each window is a limited part of a table, read in the order of an index, in a transaction of its own: so an action on a
million rows needs little memory, delays no other process, and continues after the last window when it is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from steady_queue.store.job import Lane
from steady_queue.store.operations.actions.cancellation import Cancelled, cancel
from steady_queue.store.operations.actions.job_actions import UNCHANGED, ActionResult, discard, lock_executions, retry
from steady_queue.store.operations.actions.queues import HIGHEST_PRIORITY, next_priority
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from steady_queue.store.job import CancelRequest, Status
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

WINDOW_ROWS = 500
_FIRST_ID = UUID(int=0)


class JobFilter(NamedTuple):
    """Conditions for jobs; None matches every job. The last three are about failures."""

    queue: str | None = None
    task_path: str | None = None
    exception_class: str | None = None
    failed_before: datetime | None = None
    failed_after: datetime | None = None


class Position(NamedTuple):
    """The end of a window; the lane and priority are used for the ready jobs of one queue."""

    job_id: UUID = _FIRST_ID
    lane: int = 0
    priority: int = HIGHEST_PRIORITY


class WindowResult(NamedTuple):
    """The result of one window, and where the next one begins; None at the end."""

    result: ActionResult
    next: Position | None


class CancelledWindow(NamedTuple):
    """The same, of a cancel."""

    result: Cancelled
    next: Position | None


@operation()
def retry_window(
    sql: Dialect,
    filter_: JobFilter,
    position: Position,
    limits: Limits = NO_LIMITS,
    *,
    size: int = WINDOW_ROWS,
    owns_transaction: bool = True,
) -> Flow[WindowResult]:
    """Retry the next failed jobs that match the filter."""
    ids, after = yield from _read_table(sql, "failedexecution", position, size)
    matching = yield from _match(sql, "failedexecution", ids, filter_)
    result = (
        (yield from retry.flow(sql, matching, limits, owns_transaction=owns_transaction)) if matching else UNCHANGED
    )
    return WindowResult(result, after)


@operation()
def discard_window(
    sql: Dialect,
    status: Status,
    filter_: JobFilter,
    position: Position,
    limits: Limits = NO_LIMITS,
    *,
    spare: Collection[UUID] = (),
    size: int = WINDOW_ROWS,
    owns_transaction: bool = True,
) -> Flow[WindowResult]:
    """Discard the next jobs with this status that match the filter, except those in `spare`."""
    table = f"{status}execution"
    matching, after = yield from _read_matching(sql, table, filter_, position, spare, size)
    if not matching:
        return WindowResult(UNCHANGED, after)
    result = yield from discard.flow(sql, matching, limits, owns_transaction=owns_transaction, tables=(table,))
    return WindowResult(result, after)


@operation()
def cancel_window(
    sql: Dialect,
    status: Status,
    request: CancelRequest,
    filter_: JobFilter,
    position: Position,
    limits: Limits = NO_LIMITS,
    *,
    spare: Collection[UUID] = (),
    size: int = WINDOW_ROWS,
    owns_transaction: bool = True,
) -> Flow[CancelledWindow]:
    """Cancel the next jobs with this status that match the filter, except those in `spare`."""
    table = f"{status}execution"
    matching, after = yield from _read_matching(sql, table, filter_, position, spare, size)
    if not matching:
        return CancelledWindow(Cancelled(), after)
    result = yield from cancel.flow(sql, matching, request, limits, owns_transaction=owns_transaction, tables=(table,))
    return CancelledWindow(result, after)


def _read_matching(
    sql: Dialect, table: str, filter_: JobFilter, position: Position, spare: Collection[UUID], size: int
) -> Flow[tuple[list[UUID], Position | None]]:
    """The jobs of the next window that match the filter, and where the window after it begins."""
    if table == "readyexecution" and filter_.queue is not None:
        ids, after = yield from _read_queue(sql, filter_.queue, position, size)
        filter_ = filter_._replace(queue=None)
    else:
        ids, after = yield from _read_table(sql, table, position, size)
    matching = yield from _match(sql, table, [id_ for id_ in ids if id_ not in spare], filter_)
    return matching, after


def _read_table(sql: Dialect, table: str, position: Position, size: int) -> Flow[tuple[list[UUID], Position | None]]:
    """The next jobs of an execution table, in the order of their ids."""
    rows = yield sql.statement(
        f"SELECT job_id FROM steady_queue_{table} WHERE job_id > ? ORDER BY job_id LIMIT ?",
        position.job_id,
        size,
        returns="u",
    )
    ids = [row[0] for row in rows]
    return ids, Position(ids[-1]) if len(ids) == size else None


def _read_queue(sql: Dialect, queue: str, position: Position, size: int) -> Flow[tuple[list[UUID], Position | None]]:
    """The next ready jobs of one queue, in the order of its index: other queues are not read."""
    ids: list[UUID] = []
    last, lane, priority = position
    while True:
        rows = yield sql.statement(
            f"SELECT job_id FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? AND priority = ?"
            " AND job_id > ? ORDER BY job_id LIMIT ?",
            *(queue, lane, priority, last, size - len(ids)),
            returns="u",
        )
        ids.extend(row[0] for row in rows)
        if len(ids) == size:
            return ids, Position(ids[-1], lane, priority)
        last = _FIRST_ID
        lower = yield from next_priority(sql, queue, lane, priority)
        if lower is not None:
            priority = lower
        elif lane + 1 < len(Lane):
            lane, priority = lane + 1, HIGHEST_PRIORITY
        else:
            return ids, None


def _match(sql: Dialect, table: str, ids: Sequence[UUID], filter_: JobFilter) -> Flow[list[UUID]]:
    """Those of the jobs that match the filter."""
    of_job = {"queue_name = ?": filter_.queue, "task_path = ?": filter_.task_path}
    of_failure = {
        "exception_class = ?": filter_.exception_class,
        "failed_at < ?": filter_.failed_before,
        "failed_at > ?": filter_.failed_after,
    }
    matching = yield from _select_matching(sql, f"steady_queue_{table}", "job_id", ids, of_failure)
    matching = yield from _select_matching(sql, "steady_queue_job", "id", matching, of_job)
    if matching and any(value is not None for value in of_failure.values()):
        # Locked, and then read again: the job may have been retried meanwhile, and have failed in another way.
        matching = yield from lock_executions(sql, table, matching)
        matching = yield from _select_matching(sql, f"steady_queue_{table}", "job_id", matching, of_failure)
    return matching


def _select_matching(
    sql: Dialect, table: str, key: str, ids: Sequence[UUID], conditions: Mapping[str, Any]
) -> Flow[list[UUID]]:
    given = {text: value for text, value in conditions.items() if value is not None}
    if not ids or not given:
        return list(ids)
    text = f"SELECT {key} FROM {table}{sql.by_id} WHERE {key} IN ?* AND {' AND '.join(given)}"
    rows = yield sql.statement(text, list(ids), *given.values(), returns="u")
    return sorted(row[0] for row in rows)
