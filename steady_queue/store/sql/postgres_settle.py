"""Settle on PostgreSQL: one statement, with only the parts that the outcomes need."""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

from steady_queue.store.job import FailureKind
from steady_queue.store.outcome import (
    MAX_ATTEMPTS,
    MAX_WORKER_IDS_CHARACTERS,
    Failed,
    Finished,
    Released,
    Retried,
    Snoozed,
    append_error,
    delay_of,
    is_cancelled,
)
from steady_queue.store.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from steady_queue.store.outcome import Outcome

#: What a settle does with a claim. Refused: the task was not started.
_FINISHED, _FAILED, _RELEASED, _RETRIED, _SNOOZED, _REFUSED = range(6)
_FAILURES = frozenset((_FAILED, _REFUSED))
_ONLY_FINISHED = frozenset((_FINISHED,))
_NO_ERROR = (None, None, None)
_MICROSECOND = timedelta(microseconds=1)


def finish_claims(outcomes: Sequence[Finished], process_name: str, preserve: bool, by_owner: bool) -> Statement:
    """Settle finished jobs that have neither a concurrency key nor a unique key."""
    claims = [outcome.claim for outcome in outcomes]
    return Statement(
        _end_claims_text(_ONLY_FINISHED, preserve, by_owner, False, False, False),
        (
            process_name,
            [claim.job_id for claim in claims],
            [claim.claim_id for claim in claims],
            [outcome.value for outcome in outcomes],
        ),
        returns="u",
    )


def end_claims(outcomes: Sequence[Outcome], process_name: str, preserve: bool, by_owner: bool) -> Statement:
    """Settle outcomes of any kind."""
    rows = [_outcome_row(outcome, process_name) for outcome in outcomes]
    limited = any(outcome.claim.concurrency_key is not None for outcome in outcomes)
    keyed = any(outcome.claim.unique_key is not None for outcome in outcomes)
    columns = [list(column) for column in zip(*rows, strict=True)]
    kinds = frozenset(columns[2])
    cancelled = not kinds.isdisjoint(_FAILURES) and any(map(is_cancelled, outcomes))
    text = _end_claims_text(kinds, preserve, by_owner, limited, keyed, cancelled)
    if kinds == _ONLY_FINISHED:
        columns = [columns[0], columns[1], columns[3]]
    return Statement(text, (process_name, *columns), returns="u")


def _outcome_row(outcome: Outcome, process_name: str) -> tuple[Any, ...]:
    claim = outcome.claim
    ids = (claim.job_id, claim.claim_id)
    match outcome:
        case Finished():
            return (*ids, _FINISHED, outcome.value, *_NO_ERROR, 0, 0)
        case Failed():
            kind = _FAILED if outcome.is_attempt else _REFUSED
            return (*ids, kind, None, *_error_columns(outcome, process_name), outcome.kind.value, 0)
        case Retried():
            return (*ids, _RETRIED, None, *_error_columns(outcome, process_name), 0, delay_of(outcome) // _MICROSECOND)
        case Snoozed():
            return (*ids, _SNOOZED, None, *_NO_ERROR, 0, delay_of(outcome) // _MICROSECOND)
        case Released():
            return (*ids, _RELEASED, None, *_NO_ERROR, 0, 0)
        case _:
            assert_never(outcome)


def _error_columns(outcome: Failed | Retried, process_name: str) -> tuple[str, str, str]:
    return append_error(outcome, process_name), outcome.error.exception_class, outcome.error.message


@lru_cache(maxsize=256)
def _end_claims_text(
    kinds: frozenset[int], preserve: bool, by_owner: bool, limited: bool, keyed: bool, cancelled: bool
) -> str:
    """The settle statement for these kinds of outcomes, with only the parts that they need."""
    if kinds == _ONLY_FINISHED:
        given = "unnest($2::uuid[], $3::uuid[], $4::text[]) AS g(job_id, claim_id, value)"
        extra = "0 AS kind, g.value, NULL::text AS errors"
    else:
        given = (
            "unnest($2::uuid[], $3::uuid[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::text[],"
            " $9::smallint[], $10::bigint[])"
            " AS g(job_id, claim_id, kind, value, errors, exception_class, message, failure, delay)"
        )
        extra = "g.kind, g.value, g.errors, g.exception_class, g.message, g.failure, g.delay"
    ended = (
        f"ended AS (DELETE FROM steady_queue_claimedexecution c USING {given}"
        " WHERE c.job_id = g.job_id AND c.claim_id = g.claim_id"
        f" RETURNING c.job_id, c.claim_id, c.claimed_at, {extra})"
    )
    # PostgreSQL knows no type of a parameter that is not used: the worker's name is always used once.
    parts = [ended, "worker AS (SELECT $1::text AS name)"]
    if _FINISHED in kinds and not preserve:
        parts.append("gone AS (DELETE FROM steady_queue_job j USING ended e WHERE j.id = e.job_id AND e.kind = 0)")
    updated = kinds & ({_FINISHED, _FAILED, _RETRIED} if preserve else {_FAILED, _RETRIED})
    if updated:
        parts.append(_update_text(updated, by_owner))
    if _REFUSED in kinds:
        parts.append(
            "refused AS (UPDATE steady_queue_job j SET errors = e.errors"
            f"{', last_claim_id = e.claim_id' if by_owner else ''}"
            f" FROM ended e WHERE j.id = e.job_id AND e.kind = {_REFUSED})"
        )
    if kinds & _FAILURES:
        parts.append(_INSERT_FAILED)
    if _RELEASED in kinds:
        parts.append(
            "again AS (INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
            " SELECT j.id, j.queue_name, j.lane, j.priority FROM ended e"
            f" JOIN steady_queue_job j ON j.id = e.job_id WHERE e.kind = {_RELEASED})"
        )
    if kinds & {_RETRIED, _SNOOZED}:
        parts.append(
            "later AS (INSERT INTO steady_queue_scheduledexecution (job_id, scheduled_at, priority)"
            " SELECT j.id, statement_timestamp() + e.delay * interval '1 microsecond', j.priority FROM ended e"
            f" JOIN steady_queue_job j ON j.id = e.job_id WHERE e.kind IN ({_RETRIED}, {_SNOOZED}))"
        )
    return f"WITH {', '.join((*parts, *_freed_texts(limited, keyed, cancelled)))} SELECT claim_id FROM ended"


def _freed_texts(limited: bool, keyed: bool, cancelled: bool) -> Iterator[str]:
    """The deletions of what the ended claims no longer need."""
    if limited:
        yield (
            "freed AS (DELETE FROM steady_queue_semaphore s USING ended e"
            f" WHERE s.job_id = e.job_id AND e.kind <> {_RELEASED})"
        )
    if keyed:
        yield (
            # A key that another transaction has locked is skipped: it is being taken over, or maintenance deletes it.
            "unkeyed AS (DELETE FROM steady_queue_uniquekey d USING (SELECT u.unique_key FROM ended e"
            " JOIN steady_queue_uniquekey u ON u.job_id = e.job_id"
            f" WHERE e.kind IN ({_FINISHED}, {_FAILED}, {_REFUSED})"
            " AND (u.held_until IS NULL OR u.held_until <= statement_timestamp())"
            " FOR UPDATE OF u SKIP LOCKED) k WHERE d.unique_key = k.unique_key)"
        )
    if cancelled:
        yield (
            "uncancelled AS (DELETE FROM steady_queue_cancellation x USING ended e WHERE x.job_id = e.job_id"
            f" AND e.failure = {FailureKind.CANCELLED.value})"
        )


#: The names of the workers without the oldest, if there are too many.
_KEPT_WORKERS = (
    f"CASE WHEN length(j.worker_ids) < {MAX_WORKER_IDS_CHARACTERS} THEN j.worker_ids"
    " ELSE substr(j.worker_ids, strpos(j.worker_ids, chr(10)) + 1) END"
)


def _update_text(updated: Set[int], by_owner: bool) -> str:
    """The update of jobs whose attempts have ended."""
    retries = f" retries = j.retries + CASE WHEN e.kind = {_RETRIED} THEN 1 ELSE 0 END," if _RETRIED in updated else ""
    return (
        f"done AS (UPDATE steady_queue_job j SET attempts = LEAST(j.attempts, {MAX_ATTEMPTS - 1}) + 1,{retries}"
        " started_at = COALESCE(j.started_at, e.claimed_at), last_attempted_at = e.claimed_at,"
        " finished_at = CASE WHEN e.kind = 0 THEN statement_timestamp() END, return_value = e.value,"
        f" last_claim_id = {'e.claim_id' if by_owner else 'j.last_claim_id'},"
        " errors = COALESCE(e.errors, j.errors),"
        f" worker_ids = COALESCE({_KEPT_WORKERS} || chr(10), '') || (SELECT name FROM worker)"
        f" FROM ended e WHERE j.id = e.job_id AND e.kind IN ({', '.join(map(str, sorted(updated)))}))"
    )


_INSERT_FAILED = (
    "failed AS (INSERT INTO steady_queue_failedexecution (job_id, failed_at, exception_class, message, kind)"
    " SELECT job_id, statement_timestamp(), exception_class, message, failure FROM ended"
    f" WHERE kind IN ({_FAILED}, {_REFUSED})"
    " ON CONFLICT (job_id) DO UPDATE SET failed_at = EXCLUDED.failed_at,"
    " exception_class = EXCLUDED.exception_class, message = EXCLUDED.message, kind = EXCLUDED.kind)"
)
