"""Retry a failed job with other arguments, and keep the old ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from steady_queue.store.job import NewJob
from steady_queue.store.operations.actions.job_actions import UNCHANGED, lock_executions, retry
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.outcome import append_line
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.actions.job_actions import ActionResult
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Statement

#: The columns of a job that follow from its arguments.
COLUMNS = tuple(
    name
    for name in NewJob._fields
    if name in ("arguments", "on_conflict", "overrun_after") or name.startswith(("concurrency_", "unique_"))
)
#: The number of old arguments that are kept of a job, and the number of their characters; the newest are kept.
MAX_OLD, MAX_OLD_CHARACTERS = 10, 4_000_000


@operation()
def retry_with(
    sql: Dialect, job_id: UUID, new: NewJob, limits: Limits = NO_LIMITS, *, owns_transaction: bool = True
) -> Flow[ActionResult]:
    """Retry a failed job as if it had been enqueued with the arguments, and so the keys, of this new one.

    What it saved for its next attempt belongs to the old arguments, and is deleted.
    """
    failed = yield from lock_executions(sql, "failedexecution", [job_id])
    if not failed:
        return UNCHANGED
    columns = f"{sql.now}, old_arguments, saved, {', '.join(COLUMNS)}"
    rows = yield sql.select("job", columns, failed, returns="t.." + "." * len(COLUMNS))
    if not rows:
        return UNCHANGED
    now, kept, saved, *before = rows[0]
    after = [getattr(new, name) for name in COLUMNS]
    yield _update(sql, job_id, append_old(kept, before[COLUMNS.index("arguments")], now), None, after)
    result = yield from retry.flow(sql, failed, limits, owns_transaction=owns_transaction)
    if not result.ids:  # another job has its unique key
        yield _update(sql, job_id, kept, saved, before)
    return result


def append_old(kept: str | None, arguments: str, now: datetime) -> str:
    """The old arguments with those that are replaced now, one per line, without the oldest if there are too many."""
    line = json.dumps({"replaced_at": now.isoformat(), "arguments": arguments})
    return append_line(kept, line, MAX_OLD, MAX_OLD_CHARACTERS)


def _update(
    sql: Dialect, job_id: UUID, old_arguments: str | None, saved: str | None, values: Sequence[Any]
) -> Statement:
    changes = ", ".join(f"{name} = ?" for name in ("old_arguments", "saved", *COLUMNS))
    return sql.statement(
        f"UPDATE steady_queue_job{sql.by_id} SET {changes} WHERE id = ?", old_arguments, saved, *values, job_id
    )
