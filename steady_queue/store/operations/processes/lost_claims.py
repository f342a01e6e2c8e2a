"""Lost claims: what happens to the jobs of a process that has exited, or is considered dead.

They have failed, unless the caller's `decide` retries them. A job that was to be cancelled is cancelled instead: its
process can no longer stop it, and it must not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.errors import TaskCancelled
from steady_queue.store.job import Claim, FailureKind
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.operations.settle import settle
from steady_queue.store.operations.uniqueness.displacement import list_displaced
from steady_queue.store.outcome import ErrorReport, Failed, Released, Retried, Verdict, report

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.operations.uniqueness.displacement import DisplacedJob
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

    Lost = Failed | Retried | Released

#: Decides about a claim, its error and the name of its process.
Decide = Callable[[Claim, ErrorReport, str], Failed | Retried]


class SettledClaims(NamedTuple):
    """The jobs whose claims were failed, those whose claims were released, and the others with their outcomes."""

    failed: Sequence[UUID] = ()
    released: Sequence[UUID] = ()
    retried: Sequence[Retried] = ()
    cancelled: Sequence[Failed] = ()
    #: Those of the released and retried jobs that ended, because other jobs have their unique keys.
    displaced: Sequence[DisplacedJob] = ()

    def __add__(self, other: object) -> SettledClaims:
        if not isinstance(other, SettledClaims):
            return NotImplemented
        return SettledClaims(
            [*self.failed, *other.failed],
            [*self.released, *other.released],
            [*self.retried, *other.retried],
            [*self.cancelled, *other.cancelled],
            [*self.displaced, *other.displaced],
        )


def fail(claim: Claim, error: ErrorReport, process_name: str) -> Failed:
    """The job has failed."""
    return Failed(claim, error)


def settle_lost(
    sql: Dialect,
    claims: Sequence[Claim],
    error: ErrorReport,
    process_name: str,
    *,
    release: Collection[UUID] = (),
    limits: Limits = NO_LIMITS,
    decide: Decide = fail,
) -> Flow[SettledClaims]:
    """End claims that were lost, except some that are released. They are taken from their process, if it is alive."""
    if not claims:
        return SettledClaims()
    rows = yield sql.select("cancellation", "job_id, requested_by, reason", [c.job_id for c in claims], returns="u..")
    requests = {job_id: TaskCancelled(by, reason) for job_id, by, reason in rows}
    outcomes: list[Lost] = []
    for claim in claims:
        if claim.job_id in requests:
            why = report(TaskCancelled, str(requests[claim.job_id]))
            outcomes.append(Failed(claim, why, kind=FailureKind.CANCELLED))
        elif claim.claim_id in release:
            outcomes.append(Released(claim))
        else:
            outcomes.append(decide(claim, error, process_name))
    settlement = yield from settle(sql, outcomes, process_name=process_name, by_owner=False, limits=limits).flow()
    settled = _sort(o for o in outcomes if settlement.verdicts[o.claim.claim_id] is Verdict.APPLIED)
    if settled.cancelled:
        yield sql.delete("cancellation", [outcome.claim.job_id for outcome in settled.cancelled])
    return settled._replace(displaced=list_displaced(outcomes, settlement))


def _sort(outcomes: Iterable[Lost]) -> SettledClaims:
    failed: list[UUID] = []
    released: list[UUID] = []
    retried: list[Retried] = []
    cancelled: list[Failed] = []
    for outcome in outcomes:
        if isinstance(outcome, Released):
            released.append(outcome.claim.job_id)
        elif isinstance(outcome, Retried):
            retried.append(outcome)
        elif outcome.kind is FailureKind.CANCELLED:
            cancelled.append(outcome)
        else:
            failed.append(outcome.claim.job_id)
    return SettledClaims(failed, released, retried, cancelled)
