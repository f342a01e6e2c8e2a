"""Races of cancel: against claims, settles, releases and itself. Each task ends once; a cancelled one never runs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import actions
from steady_queue.actions import CancelOutcome
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.job import FailureKind
from steady_queue.store.operations.actions.cancellation import resolve_requests
from steady_queue.store.outcome import Failed, Finished, Released
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import job, limited, report
from tests.support.threads import together

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import NewJob
    from tests.support.store.stores import SyncStore

ROUNDS = 8


@pytest.mark.parametrize("make", [job, limited])
def test_a_task_is_cancelled_before_its_claim_or_requested_after_it(
    store: SyncStore, make: Callable[[], NewJob]
) -> None:
    worker = store.worker()
    for _ in range(ROUNDS):
        new = make()
        store.enqueue(new)
        outcome: Any
        claims: Any
        outcome, claims = together(partial(actions.cancel, new.id), partial(store.claim, worker))
        assert outcome is (CancelOutcome.REQUESTED if claims else CancelOutcome.CANCELLED)
        assert count(store.alias, "cancellation") == len(claims)
        for claim in claims:
            store.settle(Failed(claim, report(), kind=FailureKind.CANCELLED))
        assert (count(store.alias, "semaphore"), count(store.alias, "cancellation")) == (0, 0)
        assert store.status(new) == ["failed"]


def test_a_task_that_ends_meanwhile_is_requested_or_has_ended(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        new = job()
        (claim,) = store.claimed(new)
        outcome: Any
        outcome, _ = together(partial(actions.cancel, new.id), partial(store.settle, Finished(claim)))
        assert outcome in (CancelOutcome.REQUESTED, CancelOutcome.ALREADY_ENDED)
        assert store.status(new) == ["finished"]
        store.run(resolve_requests(store.sql))
        assert count(store.alias, "cancellation") == 0


def test_a_task_that_is_released_meanwhile_is_cancelled(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        new = limited()
        (claim,) = store.claimed(new)
        outcome: Any
        outcome, _ = together(partial(actions.cancel, new.id), partial(store.settle, Released(claim)))
        assert outcome
        store.run(resolve_requests(store.sql))
        assert counts(store.alias) == {"failed": 1}
        actions.discard(new.id)


def test_of_two_cancels_at_once_one_ends_the_task(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        new = limited()
        store.enqueue(new)
        done = together(
            partial(actions.cancel, new.id, by="Ada"),
            lambda id_=new.id: asyncio.run(actions.acancel(id_, by="Grace")),  # type: ignore[misc]
        )
        assert sorted(map(str, done)) == ["already ended", "cancelled"]
        assert count(store.alias, "failedexecution") == 1
        actions.discard(new.id)


def test_two_requests_at_once_store_one(store: SyncStore) -> None:
    claims = store.claimed(*[job() for _ in range(50)])
    ids = [claim.job_id for claim in claims]
    first, second = together(partial(actions.cancel_many, ids), partial(actions.cancel_many, ids[::-1]))
    assert sorted(first) == sorted(second) == sorted(map(str, ids))
    assert count(store.alias, "cancellation") == 50


def test_a_task_is_cancelled_or_discarded(store: SyncStore) -> None:
    for _ in range(ROUNDS):
        new = job()
        store.enqueue(new)

        def cancel(new: NewJob = new) -> Any:
            try:
                return actions.cancel(new.id)
            except TaskResultDoesNotExist:
                return None

        # A cancelled task has failed, and is discarded too.
        assert together(cancel, partial(actions.discard, new.id))[1] is True
        assert count(store.alias, "job") == 0
