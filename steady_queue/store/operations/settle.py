"""Settle: the only place that ends a claim.

Deleting the claimed row by job id *and* claim id is the fence. Only a job whose claimed row was deleted is updated, its
slot freed and the next job of its key promoted, in the same transaction. The settle of a claim that was lost changes
nothing, and its verdict says so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from steady_queue.store.operations.endings import insert_failed
from steady_queue.store.operations.expiry import keep_from_expiring
from steady_queue.store.operations.promote import NO_LIMITS, insert_blocked, insert_ready, limit_in_force, promote
from steady_queue.store.operations.uniqueness.displacement import end_displaced, retake_keys
from steady_queue.store.operations.uniqueness.unique_keys import free_keys
from steady_queue.store.outcome import (
    Attempt,
    Failed,
    Finished,
    Released,
    Retried,
    Settlement,
    Snoozed,
    Verdict,
    append_error,
    delay_of,
    is_cancelled,
)
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import Outcome
    from steady_queue.store.sql import Dialect
    from steady_queue.store.sql.dialect import SingleStatements
    from steady_queue.store.statement import Flow, Statement

    #: For each claim id found: when it was claimed, and the database's time now.
    Held: TypeAlias = dict[UUID, tuple[datetime, datetime]]


def settle(
    sql: Dialect,
    outcomes: Sequence[Outcome],
    *,
    process_name: str,
    preserve: bool = True,
    by_owner: bool = True,
    limits: Limits = NO_LIMITS,
    promotes: bool = True,
) -> Operation[Settlement]:
    """Write the outcomes of these claims, all of one process, named `process_name`.

    `preserve` keeps the rows of finished jobs. `by_owner` is false when a claim is taken from its process: then the
    job's `last_claim_id` is not changed, so that the owner's settle is fenced. `promotes` is false when a job that
    waits for the freed slot cannot be written: maintenance promotes, and sets that job aside.
    """
    if sql.single_statements and _are_plain(outcomes):
        flow = partial(_finish, sql, sql.single_statements, outcomes, process_name, preserve, by_owner)
        return Operation("settle", flow, transaction=False)
    limited = any(outcome.claim.concurrency_key is not None for outcome in outcomes)
    more = [outcome for outcome in outcomes if type(outcome) is not Finished and _needs_more(outcome)]
    return Operation(
        "settle",
        partial(_settle, sql, outcomes, process_name, preserve, by_owner, limits if limited else None, promotes, more),
        transaction=limited or bool(more) or sql.single_statements is None,
    )


def _are_plain(outcomes: Sequence[Outcome]) -> bool:
    """Whether all tasks have finished, and none has a concurrency key or a unique key: as in most batches."""
    for outcome in outcomes:
        if type(outcome) is not Finished:
            return False
        claim = outcome.claim
        if claim.concurrency_key is not None or claim.unique_key is not None:
            return False
    return True


def _finish(
    sql: Dialect,
    statements: SingleStatements,
    outcomes: Sequence[Outcome],
    process_name: str,
    preserve: bool,
    by_owner: bool,
) -> Flow[Settlement]:
    """Settle plain outcomes by one statement."""
    if not outcomes:
        return Settlement({})
    finished = cast("Sequence[Finished]", outcomes)
    rows = yield statements.finish_claims(finished, process_name=process_name, preserve=preserve, by_owner=by_owner)
    verdicts = dict.fromkeys([row[0] for row in rows], Verdict.APPLIED)
    if len(verdicts) < len(outcomes):
        verdicts |= yield from _explain(sql, [o for o in outcomes if o.claim.claim_id not in verdicts])
    return Settlement(verdicts)


def _settle(
    sql: Dialect,
    outcomes: Sequence[Outcome],
    process_name: str,
    preserve: bool,
    by_owner: bool,
    limits: Limits | None,
    promotes: bool,
    more: Sequence[Outcome],
) -> Flow[Settlement]:
    """`limits` is None when none of the outcomes is limited. `more` are those that need more than the others."""
    if not outcomes:
        return Settlement({})
    if sql.single_statements:
        rows = yield sql.single_statements.end_claims(
            outcomes, process_name=process_name, preserve=preserve, by_owner=by_owner
        )
        applied = {row[0] for row in rows}
    else:
        applied = yield from _end_claims(sql, outcomes, process_name, preserve, by_owner)
    displaced = (yield from _write_more(sql, more, applied)) if more else {}
    promoted: Sequence[UUID] = ()
    if limits is not None:
        keys = _find_freed_keys(outcomes, applied, displaced, limits)
        waiting = [outcome for outcome in outcomes if outcome.claim.job_id not in displaced]
        keys |= yield from _block_slotless(sql, waiting, applied, limits)
        promoted = (yield from promote.flow(sql, keys, limits)) if promotes else ()
    verdicts = dict.fromkeys(applied, Verdict.APPLIED)
    verdicts |= yield from _explain(sql, [o for o in outcomes if o.claim.claim_id not in applied])
    return Settlement(verdicts, len(promoted), displaced)


def _needs_more(outcome: Outcome) -> bool:
    """Whether more than its claim and its attempt has to be written: a job that waits again takes its unique key."""
    claim = outcome.claim
    if claim.unique_key is None and claim.expires_at is None:
        return False
    return isinstance(outcome, (Released, Retried, Snoozed))


def _write_more(sql: Dialect, outcomes: Sequence[Outcome], applied: set[UUID]) -> Flow[dict[UUID, UUID]]:
    """Returns the jobs that end because other jobs have their unique keys, each with the other."""
    waiting = [outcome for outcome in outcomes if outcome.claim.claim_id in applied]
    if not waiting:
        return {}
    expiring = [outcome for outcome in waiting if outcome.claim.expires_at is not None]
    started = [o.claim.job_id for o in expiring if isinstance(o, (Released, Snoozed)) and o.was_started]
    yield from keep_from_expiring(sql, started)
    unique = [outcome.claim.job_id for outcome in waiting if outcome.claim.unique_key is not None]
    displaced = yield from retake_keys(sql, unique, owns_transaction=True)
    if displaced:
        yield from end_displaced(sql, displaced)
    return displaced


def _find_freed_keys(
    outcomes: Sequence[Outcome], applied: set[UUID], displaced: Container[UUID], limits: Limits
) -> dict[str, int]:
    """The keys that lost a slot, each with the limit in force for its job."""
    return {
        claim.concurrency_key: limit_in_force(limits, claim.task_path, claim.concurrency_limit)
        for outcome in outcomes
        if (not isinstance(outcome, Released) or outcome.claim.job_id in displaced)
        and (claim := outcome.claim).claim_id in applied
        and claim.concurrency_key is not None
    }


def _block_slotless(
    sql: Dialect, outcomes: Sequence[Outcome], applied: set[UUID], limits: Limits
) -> Flow[dict[str, int]]:
    """Block released jobs that have lost their slots, because they overran; returns their keys.

    A separate statement, after the claims were ended: before that, maintenance may still take the slot.
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
    rows = yield sql.select("semaphore", "job_id", list(released), returns="u")
    for row in rows:
        del released[row[0]]
    if released:
        yield sql.delete("readyexecution", list(released))
        yield insert_blocked(sql, [(c.job_id, c.concurrency_key, c.priority) for c in released.values()])
    return {str(c.concurrency_key): limit_in_force(limits, c.task_path, c.concurrency_limit) for c in released.values()}


def _explain(sql: Dialect, unapplied: Sequence[Outcome]) -> Flow[dict[UUID, Verdict]]:
    """Why an outcome was not applied: an earlier try of the same settle was, or the claim was lost."""
    if not unapplied:
        return {}
    ids = [outcome.claim.job_id for outcome in unapplied]
    rows = yield sql.select("job", "id, last_claim_id", ids, returns="uu")
    last = {row[0]: row[1] for row in rows}
    return {
        # A job that does not exist was settled before, and its row was not preserved.
        claim.claim_id: Verdict.REPEATED if last.get(claim.job_id, claim.claim_id) == claim.claim_id else Verdict.FENCED
        for claim in (outcome.claim for outcome in unapplied)
    }


def _end_claims(
    sql: Dialect, outcomes: Sequence[Outcome], process_name: str, preserve: bool, by_owner: bool
) -> Flow[set[UUID]]:
    ids = [outcome.claim.job_id for outcome in outcomes]
    rows = yield sql.lock("claimedexecution", f"claim_id, claimed_at, {sql.now}", ids, returns="utt")
    held: Held = {claim_id: (claimed_at, now) for claim_id, claimed_at, now in rows}
    ours = [outcome for outcome in outcomes if outcome.claim.claim_id in held]
    if not ours:
        return set()
    ended = [outcome for outcome in ours if isinstance(outcome, (Finished, Failed, Retried))]
    scheduled = [outcome for outcome in ours if isinstance(outcome, (Retried, Snoozed))]
    released = [outcome.claim.job_id for outcome in ours if isinstance(outcome, Released)]
    if ended:
        yield from _end_attempts(sql, ended, held, process_name, preserve, by_owner)
    if scheduled:
        yield _insert_scheduled(sql, scheduled, held)
    if released:
        yield insert_ready(sql, released)
    yield from _free(sql, ours)
    yield sql.delete("claimedexecution", [outcome.claim.job_id for outcome in ours])
    return {outcome.claim.claim_id for outcome in ours}


def _free(sql: Dialect, outcomes: Sequence[Outcome]) -> Flow[None]:
    """Delete the slots of jobs that are not released, the unique keys of those that have ended, and requests."""
    if without_slot := [outcome.claim.job_id for outcome in outcomes if not isinstance(outcome, Released)]:
        yield sql.delete("semaphore", without_slot)
    ended = [outcome.claim for outcome in outcomes if isinstance(outcome, (Finished, Failed))]
    if keyed := [claim.job_id for claim in ended if claim.unique_key is not None]:
        yield from free_keys(sql, keyed, owns_transaction=True)
    if cancelled := [outcome.claim.job_id for outcome in outcomes if is_cancelled(outcome)]:
        yield sql.delete("cancellation", cancelled)


def _end_attempts(
    sql: Dialect,
    ended: Sequence[Finished | Failed | Retried],
    held: Held,
    process_name: str,
    preserve: bool,
    by_owner: bool,
) -> Flow[None]:
    """What the end of attempts changes in jobs and failed rows."""
    finished = [outcome.claim.job_id for outcome in ended if isinstance(outcome, Finished)]
    if finished and not preserve:
        yield sql.delete("job", finished)
        ended = [outcome for outcome in ended if not isinstance(outcome, Finished)]
    attempts = [_build_attempt(outcome, held, process_name) for outcome in ended]
    yield from sql.update_attempts([attempt for attempt in attempts if attempt.counts], process_name, by_owner)
    if unstarted := [attempt for attempt in attempts if not attempt.counts]:
        yield _update_unstarted(sql, unstarted, by_owner)
    if failed := [outcome for outcome in ended if isinstance(outcome, Failed)]:
        yield from _insert_failures(sql, failed, held)


def _build_attempt(outcome: Finished | Failed | Retried, held: Held, process_name: str) -> Attempt:
    claim = outcome.claim
    claimed_at, now = held[claim.claim_id]
    if isinstance(outcome, Finished):
        return Attempt(claim.job_id, claim.claim_id, claimed_at, now, outcome.value, None)
    errors = append_error(outcome, process_name)
    is_retried = isinstance(outcome, Retried)
    counts = 1 if isinstance(outcome, Retried) or outcome.is_attempt else 0
    return Attempt(claim.job_id, claim.claim_id, claimed_at, None, None, errors, counts, int(is_retried))


def _update_unstarted(sql: Dialect, attempts: Sequence[Attempt], by_owner: bool) -> Statement:
    """The errors of jobs that were ended before they were started."""
    return sql.statement_each(
        f"UPDATE steady_queue_job{sql.by_id} SET errors = ?, last_claim_id = COALESCE(?, last_claim_id) WHERE id = ?",
        [(attempt.errors, attempt.claim_id if by_owner else None, attempt.job_id) for attempt in attempts],
    )


def _insert_scheduled(sql: Dialect, scheduled: Sequence[Retried | Snoozed], held: Held) -> Statement:
    return sql.statement_each(
        "INSERT INTO steady_queue_scheduledexecution (job_id, scheduled_at, priority) VALUES (?, ?, ?)",
        [
            (claim.job_id, held[claim.claim_id][1] + delay_of(outcome), claim.priority)
            for outcome in scheduled
            for claim in (outcome.claim,)
        ],
    )


def _insert_failures(sql: Dialect, failed: Sequence[Failed], held: Held) -> Flow[None]:
    # A failed row may exist from an earlier failure of the same job: the newer one replaces it.
    yield sql.delete("failedexecution", [outcome.claim.job_id for outcome in failed])
    yield insert_failed(
        sql,
        [
            (o.claim.job_id, held[o.claim.claim_id][1], o.error.exception_class, o.error.message, o.kind.value)
            for o in failed
        ],
    )
