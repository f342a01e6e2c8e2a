"""What a running task stores with its job: metadata, checkpoints, and its reports.

The fence is the claim id. Metadata and checkpoints are written while the claimed row is locked: a task that has lost
its claim writes nothing. Reports are written in batches that wait for no lock, because a task may hold its own job row
in a long transaction: a row that is locked is skipped, and its report is written later.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.job import Claim
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: How many characters of a job's log are kept; it is ASCII, so they are bytes.
LOG_CHARACTERS = 65_536


class Report(NamedTuple):
    """What a task has reported since the last report was written."""

    job_id: UUID
    claim_id: UUID
    #: JSON; None if it has not changed.
    progress: str | None
    #: JSON lines to be appended; None if there are none.
    log: str | None


def save_task_data(sql: Dialect, claim: Claim, column: Literal["metadata", "saved"], text: str) -> Operation[bool]:
    """Write a column of the job if the claim is still held; returns whether it is."""
    return Operation(
        f"save {column}", partial(_save, sql, claim, column, text), transaction=sql.single_statements is None
    )


def _save(sql: Dialect, claim: Claim, column: str, text: str) -> Flow[bool]:
    if sql.single_statements:
        rows = yield sql.single_statements.save_task_data(claim, column, text)
        return bool(rows)
    rows = yield sql.lock("claimedexecution", "claim_id", [claim.job_id], returns="u")
    if not rows or rows[0][0] != claim.claim_id:
        return False
    yield sql.statement(f"UPDATE steady_queue_job{sql.by_id} SET {column} = ? WHERE id = ?", text, claim.job_id)
    return True


def write_reports(sql: Dialect, reports: Sequence[Report]) -> Operation[set[UUID]]:
    """Write reports, at most one for each job; returns the claim ids of those that were written.

    A report is not written if its claim is lost, or if its job row is locked.
    """
    return Operation("write reports", partial(_write, sql, reports), transaction=sql.single_statements is None)


def _write(sql: Dialect, reports: Sequence[Report]) -> Flow[set[UUID]]:
    if not reports:
        return set()
    if sql.single_statements:
        rows = yield sql.single_statements.write_reports(reports, LOG_CHARACTERS)
        return {row[0] for row in rows}
    ids = [report.job_id for report in reports]
    # The last claim: a task that has just ended may still have reports to be written.
    locked = yield sql.lock("job", "id, last_claim_id", ids, returns="uu", skip_locked=True)
    if not locked:
        return set()
    claimed = yield sql.select("claimedexecution", "job_id, claim_id", ids, returns="uu")
    held = {(job_id, claim_id) for job_id, claim_id in (*locked, *claimed)}
    free = {job_id for job_id, _ in locked}
    ours = [each for each in reports if each.job_id in free and (each.job_id, each.claim_id) in held]
    if ours:
        yield sql.update_reports(ours, LOG_CHARACTERS)
    return {report.claim_id for report in ours}
