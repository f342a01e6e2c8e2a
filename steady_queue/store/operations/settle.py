"""Settle: the only place that ends a claim.

Deleting the claimed row by job id *and* claim id decides who owns the job. Only what that deleted gets its job updated,
its slot freed and the next job of its key promoted, in the same transaction. A late writer changes nothing and is told
so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from steady_queue.store.operations.promote import insert_blocked, limit_in_force, make_ready, promote
from steady_queue.store.outcome import Attempt, Failed, Finished, Released, Settlement, Verdict
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import Outcome
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

    #: For each claim id found: when it was claimed, and the database's time now.
    Held: TypeAlias = dict[UUID, tuple[datetime, datetime]]


def settle(
    sql: Dialect,
    outcomes: Sequence[Outcome],
    *,
    worker_id: str,
    preserve: bool = True,
    by_owner: bool = True,
    limits: Limits | None = None,
    promotes: bool = True,
) -> Operation[Settlement]:
    """Write what became of these claims, all of one process, named `worker_id`.

    `preserve` keeps the rows of finished jobs. `by_owner` is false when a claim is taken from its process: then the
    job's `last_claim_id` is left alone, so that the owner can still tell that it was taken. `promotes` is false when a
    job that waits for the freed slot cannot be written: maintenance promotes, and sets that job aside.
    """
    limited = any(outcome.claim.concurrency_key is not None for outcome in outcomes)
    return Operation(
        "settle",
        partial(_settle, sql, outcomes, worker_id, preserve, by_owner, (limits or {}) if limited else None, promotes),
        transaction=limited or sql.single_statements is None,
    )


def _settle(
    sql: Dialect,
    outcomes: Sequence[Outcome],
    worker_id: str,
    preserve: bool,
    by_owner: bool,
    limits: Limits | None,
    promotes: bool,
) -> Flow[Settlement]:
    """`limits` is None when none of the outcomes is limited."""
    if not outcomes:
        return Settlement({})
    if sql.single_statements:
        rows = yield sql.single_statements.end_claims(
            outcomes, worker_id=worker_id, preserve=preserve, by_owner=by_owner
        )
        applied = {row[0] for row in rows}
    else:
        applied = yield from _end_claims(sql, outcomes, worker_id, preserve, by_owner)
    promoted: Sequence[UUID] = ()
    if limits is not None:
        keys = _freed(outcomes, applied, limits) | (yield from _blocked_again(sql, outcomes, applied, limits))
        promoted = (yield from promote(sql, keys, limits)) if promotes else ()
    verdicts = dict.fromkeys(applied, Verdict.APPLIED)
    verdicts |= yield from _explain(sql, [o for o in outcomes if o.claim.claim_id not in applied])
    return Settlement(verdicts, len(promoted))


def _freed(outcomes: Sequence[Outcome], applied: set[UUID], limits: Limits) -> dict[str, int]:
    """The keys that lost a slot, each with the limit in force for its job."""
    return {
        claim.concurrency_key: limit_in_force(limits, claim.task_path, claim.concurrency_limit)
        for outcome in outcomes
        if not isinstance(outcome, Released)
        and (claim := outcome.claim).claim_id in applied
        and claim.concurrency_key is not None
    }


def _blocked_again(
    sql: Dialect, outcomes: Sequence[Outcome], applied: set[UUID], limits: Limits
) -> Flow[dict[str, int]]:
    """Let jobs that were given back after they had lost their slots to others queue for one; returns their keys.

    A statement of its own, after the claims were ended: before that, the slot may be just about to be lost.
    """
    released = {
        claim.job_id: claim
        for outcome in outcomes
        if isinstance(outcome, Released)
        and (claim := outcome.claim).claim_id in applied
        and claim.concurrency_key is not None
    }
    if not released:
        return {}
    rows = yield sql.say("SELECT job_id FROM steady_queue_semaphore WHERE job_id IN ?*", list(released), returns="u")
    for row in rows:
        del released[row[0]]
    if released:
        yield sql.say("DELETE FROM steady_queue_readyexecution WHERE job_id IN ?*", list(released))
        yield insert_blocked(sql, [(c.job_id, c.concurrency_key, c.priority) for c in released.values()])
    return {str(c.concurrency_key): limit_in_force(limits, c.task_path, c.concurrency_limit) for c in released.values()}


def _explain(sql: Dialect, unapplied: Sequence[Outcome]) -> Flow[dict[UUID, Verdict]]:
    """Why an outcome was not applied: settled before by an equal try, or taken from its process."""
    if not unapplied:
        return {}
    rows = yield sql.say(
        "SELECT id, last_claim_id FROM steady_queue_job WHERE id IN ?*",
        [outcome.claim.job_id for outcome in unapplied],
        returns="uu",
    )
    last = {row[0]: row[1] for row in rows}
    return {
        # A job that is gone has been settled and was not to be preserved.
        claim.claim_id: Verdict.REPEATED if last.get(claim.job_id, claim.claim_id) == claim.claim_id else Verdict.FENCED
        for claim in (outcome.claim for outcome in unapplied)
    }


def _end_claims(
    sql: Dialect, outcomes: Sequence[Outcome], worker_id: str, preserve: bool, by_owner: bool
) -> Flow[set[UUID]]:
    rows = yield sql.say(
        f"SELECT claim_id, claimed_at, {sql.now} FROM steady_queue_claimedexecution WHERE job_id IN ?*{sql.take}",
        [outcome.claim.job_id for outcome in outcomes],
        returns="utt",
    )
    held: Held = {claim_id: (claimed_at, now) for claim_id, claimed_at, now in rows}
    ours = [outcome for outcome in outcomes if outcome.claim.claim_id in held]
    if not ours:
        return set()
    over: list[Finished | Failed] = []
    released: list[UUID] = []
    for outcome in ours:
        match outcome:
            case Finished() | Failed():
                over.append(outcome)
            case Released():
                released.append(outcome.claim.job_id)
            case _:
                assert_never(outcome)
    if over:
        yield from _end_attempts(sql, over, held, worker_id, preserve, by_owner)
    if released:
        yield make_ready(sql, released)
    yield sql.say(
        "DELETE FROM steady_queue_claimedexecution WHERE job_id IN ?*", [outcome.claim.job_id for outcome in ours]
    )
    return {outcome.claim.claim_id for outcome in ours}


def _end_attempts(
    sql: Dialect, over: Sequence[Finished | Failed], held: Held, worker_id: str, preserve: bool, by_owner: bool
) -> Flow[None]:
    """Everything that the end of an attempt changes, but for the claimed row itself."""
    finished = [outcome.claim.job_id for outcome in over if isinstance(outcome, Finished)]
    failed = [outcome for outcome in over if isinstance(outcome, Failed)]
    if finished and not preserve:
        yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", finished)
        yield from sql.update_attempts([_attempt(outcome, held) for outcome in failed], worker_id, by_owner)
    else:
        yield from sql.update_attempts([_attempt(outcome, held) for outcome in over], worker_id, by_owner)
    if failed:
        yield from _keep_failures(sql, failed, held)
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [outcome.claim.job_id for outcome in over])


def _attempt(outcome: Finished | Failed, held: Held) -> Attempt:
    claim = outcome.claim
    claimed_at, now = held[claim.claim_id]
    if isinstance(outcome, Finished):
        return Attempt(claim.job_id, claim.claim_id, claimed_at, now, outcome.value, None)
    return Attempt(claim.job_id, claim.claim_id, claimed_at, None, None, outcome.error.as_line())


def _keep_failures(sql: Dialect, failed: Sequence[Failed], held: Held) -> Flow[None]:
    # A failed row may be left from an earlier failure of the same job: the newer one counts.
    yield sql.say(
        "DELETE FROM steady_queue_failedexecution WHERE job_id IN ?*", [outcome.claim.job_id for outcome in failed]
    )
    yield sql.say_each(
        "INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message) VALUES (?, ?, ?, ?)",
        [(o.claim.job_id, held[o.claim.claim_id][1], o.error.exception_class, o.error.message) for o in failed],
    )
