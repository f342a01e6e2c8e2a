"""Requests to cancel that are left over: maintenance cancels what waits again, and deletes the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.job import CancelRequest, FailureKind
from steady_queue.store.operations.actions import cancellation
from steady_queue.store.operations.actions.job_actions import discard
from steady_queue.store.operations.maintenance import steps as maintenance
from steady_queue.store.outcome import Failed, Finished, Released, Retried
from tests.support.databases.tables import count, row
from tests.support.store.jobs import job, limited, report

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.store.stores import Store

ADA = CancelRequest("Ada", "the end")


def request(store: Store, *ids: UUID) -> cancellation.Cancelled:
    return store.run(cancellation.cancel(store.sql, ids, ADA))


def has_work(store: Store) -> bool:
    from datetime import timedelta

    return store.run(maintenance.find_work(store.sql, alive=timedelta(hours=1), keep=None)).requests


def test_a_job_that_waits_again_is_cancelled_and_its_slot_goes_on(store: Store) -> None:
    released, retried, held, after = job(), job(), limited(), limited()
    first, second, third = store.claimed(released, retried, held)
    request(store, released.id, retried.id, held.id)
    assert not has_work(store)
    store.enqueue(after)
    store.settle(Released(first), Released(third), Retried(second, report(), 3600.0))
    assert has_work(store)
    resolved = store.run(cancellation.resolve_requests(store.sql))
    assert {request: set(ids) for request, ids in resolved.ended.items()} == {ADA: {released.id, retried.id, held.id}}
    assert store.status(released, retried, held, after) == ["failed", "failed", "failed", "ready"]
    failure = row(store.alias, "failedexecution", held.id)
    assert failure is not None
    assert (failure["kind"], failure["message"]) == (FailureKind.CANCELLED, "cancelled by Ada: the end")
    assert not has_work(store)
    assert count(store.alias, "cancellation") == 0


def test_the_requests_of_jobs_that_have_ended_are_deleted_and_those_of_running_jobs_kept(store: Store) -> None:
    finished, broken, gone, runs = job(), job(), job(), job()
    claims = store.claimed(finished, broken, gone, runs)
    request(store, *(claim.job_id for claim in claims))
    store.settle(Finished(claims[0]), Failed(claims[1], report()), Released(claims[2]))
    store.run(discard(store.sql, [gone.id]))
    assert has_work(store)
    assert store.run(cancellation.resolve_requests(store.sql)).ended == {}
    assert store.status(finished, broken, runs) == ["finished", "failed", "claimed"]
    failure = row(store.alias, "failedexecution", broken.id)
    assert failure is not None
    assert failure["kind"] == FailureKind.FAILED
    assert count(store.alias, "cancellation") == 1
    assert not has_work(store)


def test_the_next_process_that_claims_the_job_learns_of_the_request(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    request(store, new.id)
    store.settle(Released(claim))
    other = store.worker("other")
    (again,) = store.claim(other)
    assert store.run(cancellation.find_requests(store.sql, other)).claims == [(again.claim_id, ADA)]
