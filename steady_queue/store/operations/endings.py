"""Endings: what is written when a job ends that no process has claimed, because it expired or was cancelled.

The caller has locked and deleted its execution row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue.store.operations.unique_keys import free_keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.job import FailureKind
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement


def fail_unclaimed(sql: Dialect, ids: Sequence[UUID], report: ErrorReport, kind: FailureKind) -> Flow[None]:
    """Fail jobs that have no execution row. No attempt is counted."""
    rows = yield sql.statement(f"SELECT {sql.now}", returns="t")
    text = f"UPDATE steady_queue_job{sql.by_id} SET errors = {sql.appended_error} WHERE id IN ?*"
    yield sql.statement(text, report.as_line(), list(ids))
    failure = (rows[0][0], report.exception_class, report.message, kind.value)
    yield insert_failed(sql, [(id_, *failure) for id_ in ids])
    yield from free_keys(sql, ids)


def insert_failed(sql: Dialect, rows: Sequence[tuple[Any, ...]]) -> Statement:
    """A failed row for each (job id, time, exception class, message, kind)."""
    return sql.statement_each(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message, kind)"
        " VALUES (?, ?, ?, ?, ?)",
        rows,
    )
