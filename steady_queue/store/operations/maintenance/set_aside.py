"""Set aside: rows whose usual changes the database rejects, so that they do not block other rows.

Claims are ended in small parts first; a claim that is rejected alone is removed, and its job fails with a plain reason.
As little as possible is written: in the end not even the job's row, which may be the one that is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.processes.lost_claims import SettledClaims, fail, settle_lost
from steady_queue.store.operations.processes.prune import delete_jobless_claims, find_claims, without_process
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.operations.uniqueness.unique_keys import free_keys
from steady_queue.store.outcome import append_line
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.operations.processes.lost_claims import Decide
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The execution tables that may have a row of a job.
_EXECUTIONS = ("ready", "claimed", "blocked", "scheduled", "failed")


class ClaimOwner(NamedTuple):
    """The process of the claims, and the condition under which they are still to be ended.

    Without an id: the claims belong to processes that have no row. `silent_for`: the process has sent no heartbeat
    within that time.
    """

    name: str
    process_id: UUID | None = None
    silent_for: timedelta | None = None


@operation()
def end_claims(
    sql: Dialect,
    owner: ClaimOwner,
    claims: Mapping[UUID, UUID],
    report: ErrorReport,
    *,
    release: Collection[UUID] = (),
    limits: Limits = NO_LIMITS,
    decide: Decide = fail,
) -> Flow[SettledClaims]:
    """End these claims, each given with its job's id, except some that are released."""
    if not (yield from _is_still_silent(sql, owner)):
        return SettledClaims()
    where = "c.job_id IN ?*"
    if owner.process_id is None:
        where += f" AND {without_process(sql)}"
    found = yield from find_claims(sql, where, list(claims.values()))
    known = [claim for claim in found if claim.claim_id in claims]
    settled = yield from settle_lost(sql, known, report, owner.name, release=set(release), limits=limits, decide=decide)
    if len(found) < len(claims):
        yield from delete_jobless_claims(sql, list(claims.values()))
    return settled


@operation()
def set_aside(
    sql: Dialect, owner: ClaimOwner, claim_id: UUID, job_id: UUID, report: ErrorReport, writes_errors: bool
) -> Flow[bool]:
    """End one claim without counting an attempt: its job fails, unless it has another execution row.

    Returns False if the claim does not exist any more.
    `writes_errors`: the reason is also added to the errors of the job. Its key is not promoted.
    """
    if not (yield from _is_still_silent(sql, owner)):
        return False
    rows = yield sql.lock("claimedexecution", "claim_id, process_id", [job_id], returns="uu")
    if not rows or rows[0][0] != claim_id:
        return False
    if owner.process_id is None:
        text = f"SELECT id FROM steady_queue_process{sql.by_id} WHERE id = ?"
        rows = yield sql.statement(text, rows[0][1], returns="u")
        if rows:
            return False
    yield sql.delete("claimedexecution", [job_id])
    yield from _fail_without_execution(sql, job_id, report, writes_errors)
    return True


@operation()
def set_blocked_aside(sql: Dialect, job_id: UUID, report: ErrorReport, writes_errors: bool) -> Flow[bool]:
    """Fail a blocked job, unless it has another execution row. Returns False if it is not blocked any more."""
    rows = yield sql.lock("blockedexecution", "job_id", [job_id], skip_locked=True, returns="u")
    if not rows:
        return False
    yield sql.delete("blockedexecution", [job_id])
    yield from _fail_without_execution(sql, job_id, report, writes_errors)
    return True


def _is_still_silent(sql: Dialect, owner: ClaimOwner) -> Flow[bool]:
    """Whether the owner is still considered dead; if so, its next heartbeat waits for the end of the transaction."""
    if owner.silent_for is None:
        return True
    rows = yield sql.statement(
        f"SELECT id FROM steady_queue_process{sql.by_id} WHERE id = ?"
        f" AND last_heartbeat_at < {sql.ago(owner.silent_for.total_seconds())}{sql.for_update_skip_locked}",
        owner.process_id,
        returns="u",
    )
    return bool(rows)


def _fail_without_execution(sql: Dialect, job_id: UUID, report: ErrorReport, writes_errors: bool) -> Flow[None]:
    """Fail the job if no execution row is left, and free its slot.

    If another execution row exists, the job keeps it.
    """
    exists = [
        f"EXISTS (SELECT 1 FROM steady_queue_{name}execution{sql.by_id} WHERE job_id = ?)" for name in _EXECUTIONS
    ]
    rows = yield sql.statement(f"SELECT {', '.join(exists)}", *[job_id] * len(exists), returns="." * len(exists))
    is_in = dict(zip(_EXECUTIONS, map(bool, rows[0]), strict=True))
    if not (is_in["ready"] or is_in["claimed"]):
        yield sql.delete("semaphore", [job_id])
    text = f"SELECT {sql.now} FROM steady_queue_job{sql.by_id} WHERE id = ? AND finished_at IS NULL"
    rows = yield sql.statement(text, job_id, returns="t")
    if any(is_in.values()) or not rows:
        return
    if writes_errors:
        old = yield sql.select("job", "errors", [job_id], returns=".")
        text = f"UPDATE steady_queue_job{sql.by_id} SET errors = ? WHERE id = ?"
        yield sql.statement(text, append_line(old[0][0], report.as_line()), job_id)
    yield sql.statement(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message) VALUES (?, ?, ?, ?)",
        *(job_id, rows[0][0], report.exception_class, report.message),
    )
    yield from free_keys(sql, [job_id], owns_transaction=True)
