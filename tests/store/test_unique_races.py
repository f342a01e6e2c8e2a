"""Races for unique keys: several connections want the same key, or free it while another wants it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from steady_queue.errors import DuplicateTask, StoreConflict, StoreError
from steady_queue.store.job import OnDuplicate, Until
from steady_queue.store.operations.maintenance.sweeps import sweep_unique_keys
from steady_queue.store.outcome import Finished, Released, Verdict
from tests.support.databases.open_transactions import OpenTransaction, run_with_short_lock_timeout
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import failed, job, unique
from tests.support.store.stores import SyncStore
from tests.support.threads import together, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store

pytestmark = pytest.mark.only_on("postgres", "mariadb")


@pytest.fixture
def session(database: str) -> Iterator[OpenTransaction]:
    """A transaction of a caller, which stays open."""
    opened = OpenTransaction(database)
    opened.begin()
    yield opened
    opened.close()


def try_to_enqueue(alias: str, *jobs: NewJob, on_duplicate: OnDuplicate = OnDuplicate.REJECT) -> bool:
    try:
        SyncStore(alias).enqueue(*jobs, on_duplicate=on_duplicate)
    except DuplicateTask:
        return False
    return True


def test_of_many_enqueues_at_once_one_wins(database: str) -> None:
    won: list[bool] = []
    together(*[lambda: won.append(try_to_enqueue(database, unique(), job()))] * 8)
    assert sorted(won) == [False] * 7 + [True]
    assert count(database, "job") == 2


def test_many_keys_in_any_order_are_no_deadlock(database: str) -> None:
    keys = [f"key {number}" for number in range(20)]

    def enqueue(order: list[str]) -> None:
        jobs = [unique(key) for key in order]
        SyncStore(database).enqueue(*jobs, on_duplicate=OnDuplicate.RETURN_EXISTING)

    together(*[lambda order=order: enqueue(order) for order in (keys, keys[::-1]) for _ in range(3)])
    assert (count(database, "job"), count(database, "uniquekey")) == (20, 20)


@pytest.mark.parametrize("commits", [True, False])
def test_an_enqueue_waits_for_the_open_transaction_that_has_taken_the_key(
    database: str, session: OpenTransaction, commits: bool
) -> None:
    first, second = unique(), unique()
    session.do(lambda store: store.enqueue(first, promoting=False))
    with while_in_thread(lambda: try_to_enqueue(database, second)) as won:
        session.end(commit=commits)
    assert won.result() is not commits
    assert counts(database) == {"ready": 1}


@pytest.mark.parametrize("end", [Finished, failed])
@pytest.mark.parametrize("on_duplicate", [OnDuplicate.REJECT, OnDuplicate.RETURN_EXISTING])
def test_the_end_of_a_job_does_not_wait_for_an_open_transaction_that_met_its_key(
    database: str, session: OpenTransaction, end: Callable[[Claim], Outcome], on_duplicate: OnDuplicate
) -> None:
    store = SyncStore(database)
    (claim,) = store.claimed(unique())

    def meet(opened: Store) -> None:
        with suppress(DuplicateTask):
            opened.enqueue(unique(), promoting=False, on_duplicate=on_duplicate)

    session.do(meet)

    def settle() -> None:
        assert store.settle(end(claim)).verdicts == {claim.claim_id: Verdict.APPLIED}

    run_with_short_lock_timeout(database, settle)
    session.end(commit=True)
    # A key that was locked is deleted by maintenance, or taken over.
    new = unique()
    store.enqueue(new)
    assert counts(database).get("ready") == 1
    store.run(sweep_unique_keys(store.sql))
    assert count(database, "uniquekey") == 1


def test_an_open_claim_cannot_be_replaced_and_blocks_nothing(database: str) -> None:
    store = SyncStore(database)
    first = unique()
    store.enqueue(first)
    worker = store.worker()

    def replace() -> None:
        # A claim is committed within milliseconds, so the operation was started again until it gave up.
        with pytest.raises(StoreConflict, match="is being changed"):
            store.enqueue(unique(), on_duplicate=OnDuplicate.REPLACE)

    with transaction.atomic(using=database):
        assert len(store.claim(worker)) == 1
        run_with_short_lock_timeout(database, replace)
    assert counts(database) == {"claimed": 1}


def test_a_claim_skips_a_job_that_is_being_replaced(database: str, session: OpenTransaction) -> None:
    store = SyncStore(database)
    store.enqueue(unique())
    worker, second = store.worker(), unique()
    session.do(lambda opened: opened.enqueue(second, promoting=False, on_duplicate=OnDuplicate.REPLACE))

    def claim() -> None:
        assert store.claim(worker) == []

    run_with_short_lock_timeout(database, claim)
    session.end(commit=True)
    assert [claim.job_id for claim in store.claim(worker)] == [second.id]


@pytest.mark.parametrize("commits", [True, False])
def test_a_release_waits_for_the_transaction_that_takes_its_key_over(
    database: str, session: OpenTransaction, commits: bool
) -> None:
    store = SyncStore(database)
    first, second = unique(until=Until.STARTED), unique(until=Until.STARTED)
    (claim,) = store.claimed(first)
    session.do(lambda opened: opened.enqueue(second, promoting=False))
    with while_in_thread(lambda: SyncStore(database).settle(Released(claim))) as settled:
        session.end(commit=commits)
    assert settled.result().displaced == ({first.id: second.id} if commits else {})
    assert counts(database) == ({"ready": 1, "failed": 1} if commits else {"ready": 1})


def test_enqueues_replacements_claims_and_ends_at_once_leave_one_waiting_job(database: str) -> None:
    store = SyncStore(database)
    worker = store.worker()
    ends: list[Callable[[Claim], Outcome]] = [Finished, failed, Released]

    def enqueue() -> None:
        own = SyncStore(database)
        for number in range(15):
            rule = (OnDuplicate.REPLACE, OnDuplicate.RETURN_EXISTING, OnDuplicate.REJECT)[number % 3]
            with suppress(DuplicateTask, StoreError):
                own.enqueue(unique(until=Until.STARTED), on_duplicate=rule)

    def work() -> None:
        own = SyncStore(database)
        for number in range(25):
            for claim in own.claim(worker):
                own.settle(ends[number % 3](claim))

    together(enqueue, enqueue, work, work)
    store.run(sweep_unique_keys(store.sql))
    assert counts(database).get("ready", 0) <= 1
