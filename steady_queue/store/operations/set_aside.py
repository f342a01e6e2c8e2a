"""Set aside: rows that the database refuses to change as usual, so that they hold up no others.

Claims are ended in small parts first; a claim that is refused alone is removed, and its job fails with a plain reason.
As little is written as there can be: at last not even the job's row, which may be what is refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.prune import WITHOUT_PROCESS, SettledClaims, find_claims, forget_jobless
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Failed, Released, Verdict
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The execution tables that may hold a job.
_EXECUTIONS = ("ready", "claimed", "blocked", "scheduled", "failed")


class ClaimOwner(NamedTuple):
    """Whose claims they are, and what must still be true when they are ended.

    Without an id: they belong to processes that have no row. `silent_for`: it has not beaten within that time.
    """

    name: str
    process_id: UUID | None = None
    silent_for: timedelta | None = None


def end_claims(
    sql: Dialect,
    owner: ClaimOwner,
    claims: Mapping[UUID, UUID],
    report: ErrorReport,
    *,
    release: Collection[UUID] = (),
    limits: Limits | None = None,
) -> Operation[SettledClaims]:
    """Fail these claims, each given with its job's id, except some that are released."""
    return Operation("end claims", partial(_end_some, sql, owner, claims, report, set(release), limits or {}))


def set_aside(
    sql: Dialect, owner: ClaimOwner, claim_id: UUID, job_id: UUID, report: ErrorReport, writes_errors: bool
) -> Operation[bool]:
    """End one claim without counting an attempt: its job fails, unless it has another execution row.

    Returns False if the claim does not exist any more.
    `writes_errors`: the reason is also added to the errors of the job. Its key is not promoted.
    """
    return Operation("set aside", partial(_set_aside, sql, owner, claim_id, job_id, report, writes_errors))


def set_blocked_aside(sql: Dialect, job_id: UUID, report: ErrorReport, writes_errors: bool) -> Operation[bool]:
    """The same for a job that is blocked."""
    return Operation("set aside", partial(_set_blocked_aside, sql, job_id, report, writes_errors))


def _end_some(
    sql: Dialect,
    owner: ClaimOwner,
    claims: Mapping[UUID, UUID],
    report: ErrorReport,
    release: set[UUID],
    limits: Limits,
) -> Flow[SettledClaims]:
    if not (yield from _is_still_silent(sql, owner)):
        return SettledClaims([], [])
    where = "c.job_id IN ?*"
    if owner.process_id is None:
        where += f" AND {WITHOUT_PROCESS}"
    found = yield from find_claims(sql, where, list(claims.values()))
    outcomes = [
        Released(claim) if claim.claim_id in release else Failed(claim, report)
        for claim in found
        if claim.claim_id in claims
    ]
    settlement = yield from settle(sql, outcomes, worker_id=owner.name, by_owner=False, limits=limits).flow()
    if len(found) < len(claims):
        yield from forget_jobless(sql, list(claims.values()))
    applied = [o for o in outcomes if settlement.verdicts[o.claim.claim_id] is Verdict.APPLIED]
    return SettledClaims(
        [outcome.claim.job_id for outcome in applied if isinstance(outcome, Failed)],
        [outcome.claim.job_id for outcome in applied if isinstance(outcome, Released)],
    )


def _is_still_silent(sql: Dialect, owner: ClaimOwner) -> Flow[bool]:
    """Whether the owner may still be taken for dead; if so, its next heartbeat waits for the end of the transaction."""
    if owner.silent_for is None:
        return True
    rows = yield sql.say(
        "SELECT id FROM steady_queue_process"
        f" WHERE id = ? AND last_heartbeat_at < {sql.ago(owner.silent_for.total_seconds())}{sql.take_free}",
        owner.process_id,
        returns="u",
    )
    return bool(rows)


def _set_aside(
    sql: Dialect, owner: ClaimOwner, claim_id: UUID, job_id: UUID, report: ErrorReport, writes_errors: bool
) -> Flow[bool]:
    if not (yield from _is_still_silent(sql, owner)):
        return False
    rows = yield sql.say(
        f"SELECT claim_id, process_id FROM steady_queue_claimedexecution WHERE job_id IN ?*{sql.take}",
        [job_id],
        returns="uu",
    )
    if not rows or rows[0][0] != claim_id:
        return False
    if owner.process_id is None:
        rows = yield sql.say("SELECT id FROM steady_queue_process WHERE id = ?", rows[0][1], returns="u")
        if rows:
            return False
    yield sql.say("DELETE FROM steady_queue_claimedexecution WHERE job_id IN ?*", [job_id])
    yield from _fail_unless_elsewhere(sql, job_id, report, writes_errors)
    return True


def _set_blocked_aside(sql: Dialect, job_id: UUID, report: ErrorReport, writes_errors: bool) -> Flow[bool]:
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_blockedexecution WHERE job_id IN ?*{sql.take_free}", [job_id], returns="u"
    )
    if not rows:
        return False
    yield sql.say("DELETE FROM steady_queue_blockedexecution WHERE job_id IN ?*", [job_id])
    yield from _fail_unless_elsewhere(sql, job_id, report, writes_errors)
    return True


def _fail_unless_elsewhere(sql: Dialect, job_id: UUID, report: ErrorReport, writes_errors: bool) -> Flow[None]:
    """Fail the job if no execution row is left, and free its slot.

    If another execution row exists, the job keeps it.
    """
    exists = [f"EXISTS (SELECT 1 FROM steady_queue_{name}execution WHERE job_id = ?)" for name in _EXECUTIONS]
    rows = yield sql.say(f"SELECT {', '.join(exists)}", *[job_id] * len(exists), returns="." * len(exists))
    is_in = dict(zip(_EXECUTIONS, map(bool, rows[0]), strict=True))
    if not (is_in["ready"] or is_in["claimed"]):
        yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [job_id])
    rows = yield sql.say(
        f"SELECT {sql.now} FROM steady_queue_job WHERE id = ? AND finished_at IS NULL", job_id, returns="t"
    )
    if any(is_in.values()) or not rows:
        return
    if writes_errors:
        yield sql.say(f"UPDATE steady_queue_job SET errors = {sql.errors_and} WHERE id = ?", report.as_line(), job_id)
    yield sql.say(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message) VALUES (?, ?, ?, ?)",
        *(job_id, rows[0][0], report.exception_class, report.message),
    )
