"""Endings: what is written when a job ends that no process has claimed, because it expired or was cancelled.

The caller has locked and deleted its execution row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue.store.operations.uniqueness.unique_keys import free_keys
from steady_queue.store.outcome import append_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.job import FailureKind
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement


def fail_unclaimed(sql: Dialect, ids: Sequence[UUID], report: ErrorReport, kind: FailureKind) -> Flow[None]:
    """Fail jobs that have no execution row. No attempt is counted."""
    # Locked, not only read: in a transaction of the caller a plain read may show errors of an earlier snapshot.
    rows = yield sql.lock("job", "id, errors", sorted(ids), is_ordered=True, returns="u.")
    line = report.as_line()
    if first := [id_ for id_, errors in rows if not errors]:
        yield sql.statement(f"UPDATE steady_queue_job{sql.by_id} SET errors = ? WHERE id IN ?*", line, first)
    if later := [(append_line(str(errors), line), id_) for id_, errors in rows if errors]:
        yield sql.statement_each(f"UPDATE steady_queue_job{sql.by_id} SET errors = ? WHERE id = ?", later)
    yield sql.statement(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message, kind)"
        f" SELECT id, {sql.now}, ?, ?, {kind.value} FROM steady_queue_job{sql.by_id} WHERE id IN ?*",
        report.exception_class,
        report.message,
        list(ids),
    )
    yield from free_keys(sql, ids)


def insert_failed(sql: Dialect, rows: Sequence[tuple[Any, ...]]) -> Statement:
    """A failed row for each (job id, time, exception class, message, kind)."""
    return sql.statement_each(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message, kind)"
        " VALUES (?, ?, ?, ?, ?)",
        rows,
    )
