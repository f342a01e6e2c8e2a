"""Claims whose process is gone: they fail, are retried, cancelled or released."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.store.job import FailureKind, Until
from steady_queue.store.operations.maintenance.set_aside import ClaimOwner, end_claims, set_aside
from steady_queue.store.operations.processes.lost_claims import fail
from steady_queue.store.operations.processes.prune import end_orphans, prune_exited_process, prune_process
from steady_queue.store.operations.uniqueness.displacement import DisplacedJob
from steady_queue.store.outcome import MAX_ERRORS, Finished, Retried, report
from tests.support.databases.tables import counts, query, row
from tests.support.store.jobs import job, unique

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.operations.processes.lost_claims import SettledClaims
    from steady_queue.store.outcome import ErrorReport, Failed
    from tests.support.store.stores import Store

ERROR = report(ProcessExitError, "it exited")


def retry_mail(claim: Claim, error: ErrorReport, process_name: str) -> Failed | Retried:
    return Retried(claim, error, 60) if claim.queue_name == "mail" else fail(claim, error, process_name)


def _claimed(store: Store) -> tuple[UUID, list[Claim], list[NewJob]]:
    process_id = store.worker("gone")
    jobs = [job(), job(queue_name="mail"), job(), job()]
    return process_id, list(store.claimed(*jobs, process_id=process_id)), jobs


def _end(store: Store, way: str, process_id: UUID, claims: list[Claim], release: list[UUID]) -> SettledClaims:
    match way:
        case "pruned":
            pruned = store.run(
                prune_process(store.sql, me=uuid4(), report=lambda _: ERROR, only=[process_id], decide=retry_mail)
            )
            assert pruned is not None
            return pruned.settled
        case "exited":
            return store.run(
                prune_exited_process(store.sql, process_id, "gone", ERROR, release=release, decide=retry_mail)
            )
        case "orphaned":
            query(store.alias, "DELETE FROM steady_queue_process")
            return store.run(end_orphans(store.sql, ERROR, decide=retry_mail))
        case _:
            known = {claim.claim_id: claim.job_id for claim in claims}
            owner = ClaimOwner("gone", process_id)
            return store.run(end_claims(store.sql, owner, known, ERROR, release=release, decide=retry_mail))


@pytest.mark.parametrize("way", ["pruned", "exited", "orphaned", "split"])
def test_a_lost_job_ends_if_another_has_taken_its_unique_key(store: Store, way: str) -> None:
    process_id = store.worker("gone")
    lost, other = unique(until=Until.STARTED, queue_name="mail"), unique(until=Until.STARTED)
    claims = store.claimed(lost, process_id=process_id)
    store.enqueue(other)
    settled = _end(store, way, process_id, claims, [])
    assert settled.displaced == [DisplacedJob(lost.id, lost.task_path, other.id)]
    assert store.status(lost, other) == ["failed", "ready"]


@pytest.mark.parametrize("way", ["pruned", "exited", "orphaned", "split"])
def test_each_lost_job_fails_is_retried_or_is_cancelled(store: Store, way: str) -> None:
    process_id, claims, (first, mailed, cancelled, other) = _claimed(store)
    query(
        store.alias,
        "INSERT INTO steady_queue_cancellation (job_id, requested_at, requested_by, reason)"
        f" VALUES ('{_shown(store, cancelled.id)}', '2024-01-01 00:00:00', 'ada', 'too many')",
    )
    releases = way in ("exited", "split")
    # A job that is to be cancelled is not released either.
    release = [claim.claim_id for claim in claims if claim.job_id in (other.id, cancelled.id)] if releases else []

    settled = _end(store, way, process_id, claims, release)

    assert set(settled.failed) == ({first.id} if releases else {first.id, other.id})
    assert list(settled.released) == ([other.id] if releases else [])
    assert [(outcome.claim.job_id, outcome.delay_seconds) for outcome in settled.retried] == [(mailed.id, 60)]
    assert [outcome.claim.job_id for outcome in settled.cancelled] == [cancelled.id]
    assert store.status(first, mailed, cancelled) == ["failed", "scheduled", "failed"]
    found = row(store.alias, "failedexecution", cancelled.id)
    assert found is not None
    assert (found["kind"], found["exception_class"], found["message"]) == (
        FailureKind.CANCELLED,
        "steady_queue.errors.TaskCancelled",
        "cancelled by ada: too many",
    )
    assert query(store.alias, "SELECT count(*) FROM steady_queue_cancellation") == [(0,)]
    assert counts(store.alias).get("claimed") is None


def _shown(store: Store, job_id: UUID) -> str:
    return str(store.sql.encode(job_id))


def test_a_lost_job_that_is_retried_can_no_longer_be_settled_by_its_process(store: Store) -> None:
    process_id, claims, (_, mailed, *_) = _claimed(store)
    store.run(prune_exited_process(store.sql, process_id, "gone", ERROR, decide=retry_mail))
    (late,) = [claim for claim in claims if claim.job_id == mailed.id]
    assert set(store.settle(Finished(late)).verdicts.values()) == {"fenced"}
    assert store.status(mailed) == ["scheduled"]


@pytest.mark.parametrize("kind", [ProcessExitError, ProcessPrunedError, ProcessMissingError])
def test_a_task_is_retried_after_each_way_to_lose_its_process_if_it_wants_that(
    store: Store, kind: type[Exception]
) -> None:
    from steady_queue.arguments import dumps
    from steady_queue.jobs.running.retries import decide_lost
    from tests.support.tasks import retrying

    paths = [retrying.retries_lost.module_path, retrying.flaky.module_path, "tests.unknown.task"]
    jobs = [job(task_path=path, arguments=dumps([], {})) for path in paths]
    claims = store.claimed(*jobs, process_id=store.worker("gone"))
    error = report(kind, "it is gone")
    outcomes = {claim.task_path: decide_lost(claim, error, "gone") for claim in claims}
    assert isinstance(outcomes[paths[0]], Retried)
    assert not isinstance(outcomes[paths[1]], Retried)
    assert not isinstance(outcomes[paths[2]], Retried)
    last = next(claim for claim in claims if claim.task_path == paths[0])._replace(retries=2)
    exhausted = decide_lost(last, error, "gone")
    assert not isinstance(exhausted, Retried)
    assert exhausted.kind is FailureKind.EXHAUSTED
    store.settle(*(outcome for outcome in outcomes.values()))


def test_the_errors_of_a_job_that_is_set_aside_are_bounded(store: Store) -> None:
    process_id = store.worker("gone")
    new = job()
    (claim,) = store.claimed(new, process_id=process_id)
    old = "\n".join(ERROR.as_line() for _ in range(MAX_ERRORS))
    query(store.alias, f"UPDATE steady_queue_job SET errors = '{old}'")
    why = report(ProcessExitError, "it is set aside")
    owner = ClaimOwner("gone", process_id)
    assert store.run(set_aside(store.sql, owner, claim.claim_id, new.id, why, writes_errors=True))
    errors = str(store.find(new)[0].errors).split("\n")
    assert (len(errors), errors[-1]) == (MAX_ERRORS, why.as_line())
