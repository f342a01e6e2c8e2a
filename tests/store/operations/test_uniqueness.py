"""Uniqueness: of jobs with the same key one is stored, and its key is free again when it should be."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue.errors import DuplicateTask
from steady_queue.store.job import FailureKind, OnDuplicate, Until
from steady_queue.store.operations.actions.cleanup import CleanupPosition, EndedFilter, clear_failed
from steady_queue.store.operations.actions.corrections import retry_with
from steady_queue.store.operations.actions.job_actions import run_now
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.maintenance.sweeps import sweep_expired, sweep_unique_keys
from steady_queue.store.outcome import Failed, Finished, Released, Retried, Snoozed
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import discarding, failed, job, later, limited, report, unique
from tests.support.store.rows import slots, stored_ids
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store

HOUR = 3_600_000_000
MARK = EndedFilter(timedelta(hours=1))
BACK: dict[str, Callable[[Claim], Outcome]] = {
    "released": Released,
    "retried": lambda claim: Retried(claim, report(), 0),
    "snoozed": lambda claim: Snoozed(claim, 0),
}
each_way_back = pytest.mark.parametrize("back", BACK.values(), ids=BACK)


def holders(store: Store) -> dict[str, UUID]:
    """The job that has each key."""
    rows = store.ask("SELECT unique_key, job_id FROM steady_queue_uniquekey", returns=".u")
    return {str(row[0]): row[1] for row in rows}


def is_refused(store: Store, *jobs: NewJob) -> bool:
    """Whether an enqueue is refused, and stores nothing."""
    before = stored_ids(store), holders(store)
    try:
        store.enqueue(*jobs)
    except DuplicateTask:
        assert (stored_ids(store), holders(store)) == before
        return True
    return False


def hours_pass(store: Store) -> None:
    """What was held for some time is not any longer."""
    store.ask("UPDATE steady_queue_uniquekey SET held_until = ? WHERE held_until IS NOT NULL", later(hours=-1))


# -- reject -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"scheduled_at": later()}, {"concurrency_key": "c", "concurrency_limit": 1}])
def test_a_second_job_with_the_key_is_refused_while_the_first_waits(store: Store, options: dict[str, Any]) -> None:
    first = unique(**options)
    store.enqueue(first)
    with pytest.raises(DuplicateTask, match=f"'key' is taken by the task {first.id}") as refused:
        store.enqueue(unique())
    assert refused.value.existing_ids == (str(first.id),)
    assert stored_ids(store) == {first.id}
    assert not is_refused(store, unique("other"), job())


def test_nothing_of_a_call_is_stored_if_one_of_its_jobs_is_refused(store: Store) -> None:
    store.enqueue(unique("b"))
    assert is_refused(store, job(), unique("a"), unique("b"), unique("c"), job())
    assert list(holders(store)) == ["b"]


def test_two_jobs_of_one_call_with_the_same_key_are_refused(store: Store) -> None:
    with pytest.raises(DuplicateTask, match="occurs twice in one call") as refused:
        store.enqueue(unique(), job(), unique())
    assert refused.value.existing_ids == ()
    assert stored_ids(store) == set()


@pytest.mark.parametrize("end", [Finished, failed])
@pytest.mark.parametrize("preserve", [True, False])
def test_the_end_of_a_job_frees_its_key(store: Store, end: Callable[[Claim], Outcome], preserve: bool) -> None:
    (claim,) = store.claimed(unique())
    assert is_refused(store, unique())
    store.settle(end(claim), preserve=preserve)
    assert holders(store) == {}
    assert not is_refused(store, unique())


def test_a_key_that_is_held_until_the_start_is_free_when_the_job_is_claimed(store: Store) -> None:
    first, second = unique(until=Until.STARTED), unique(until=Until.STARTED)
    store.enqueue(first)
    assert is_refused(store, unique(until=Until.STARTED))
    (claim,) = store.claim(store.worker())
    store.enqueue(second)
    assert holders(store) == {"key": second.id}
    store.settle(Finished(claim))
    assert holders(store) == {"key": second.id}


def test_a_repeated_enqueue_finds_its_own_job(store: Store) -> None:
    new = unique()
    store.enqueue(new)
    assert store.enqueue(new, is_repeated=True).existing == {}
    assert stored_ids(store) == {new.id}


# -- return the existing one ------------------------------------------------------------------------------------------


def test_the_job_that_has_the_key_is_returned(store: Store) -> None:
    first, second, other = unique(arguments="[1,[7],{}]"), unique(), job()
    store.enqueue(first)
    stored = store.enqueue(second, other, on_duplicate=OnDuplicate.RETURN_EXISTING)
    assert stored.existing == {second.id: first.id}
    assert stored.records[first.id].arguments == "[1,[7],{}]"
    assert stored_ids(store) == {first.id, other.id}


def test_jobs_of_one_call_stand_for_the_first_of_them(store: Store) -> None:
    jobs = [unique(), unique(), unique("other"), unique()]
    stored = store.enqueue(*jobs, on_duplicate=OnDuplicate.RETURN_EXISTING)
    assert stored.existing == {jobs[1].id: jobs[0].id, jobs[3].id: jobs[0].id}
    again = [unique(), unique()]
    stored = store.enqueue(*again, on_duplicate=OnDuplicate.RETURN_EXISTING)
    assert stored.existing == dict.fromkeys([new.id for new in again], jobs[0].id)
    assert stored_ids(store) == {jobs[0].id, jobs[2].id}


def test_a_job_that_no_longer_exists_cannot_be_returned(store: Store) -> None:
    first = unique()
    store.enqueue(first, within_microseconds=HOUR)
    assert store.discard(first) == [first.id]
    with pytest.raises(DuplicateTask):
        store.enqueue(unique(), on_duplicate=OnDuplicate.RETURN_EXISTING)


# -- replace ----------------------------------------------------------------------------------------------------------


def test_a_waiting_job_is_replaced_and_its_slot_is_free(store: Store) -> None:
    limits: dict[str, Any] = {"concurrency_key": "c", "concurrency_limit": 1}
    first, waiting, second = unique(**limits, expires_at=later()), limited("c"), unique(**limits)
    store.enqueue(first, waiting)
    assert store.status(first, waiting) == ["ready", "blocked"]
    stored = store.enqueue(second, on_duplicate=OnDuplicate.REPLACE)
    assert stored.replaced == [first.id]
    assert stored_ids(store) == {waiting.id, second.id}
    assert store.status(waiting, second) == ["ready", "blocked"]
    assert (holders(store), slots(store, "c")) == ({"key": second.id}, [1])


@pytest.mark.parametrize("options", [{"scheduled_at": later()}, {"concurrency_key": "c", "concurrency_limit": 1}])
def test_a_scheduled_or_blocked_job_is_replaced(store: Store, options: dict[str, Any]) -> None:
    store.claimed(limited("c"))
    first, second = unique(**options), unique(scheduled_at=later())
    store.enqueue(first)
    assert store.enqueue(second, on_duplicate=OnDuplicate.REPLACE).replaced == [first.id]
    assert (holders(store), store.status(second)) == ({"key": second.id}, ["scheduled"])


def test_a_running_job_is_not_replaced(store: Store) -> None:
    (claim,) = store.claimed(unique())
    with pytest.raises(DuplicateTask) as refused:
        store.enqueue(unique(), on_duplicate=OnDuplicate.REPLACE)
    assert refused.value.existing_ids == (str(claim.job_id),)
    assert counts(store.alias) == {"claimed": 1}


@pytest.mark.parametrize("end", [Finished, failed])
def test_a_job_that_has_ended_is_not_replaced_while_its_key_is_held(
    store: Store, end: Callable[[Claim], Outcome]
) -> None:
    first, second = unique(), unique()
    store.enqueue(first, within_microseconds=HOUR)
    store.settle(*map(end, store.claim(store.worker())))
    with pytest.raises(DuplicateTask) as refused:
        store.enqueue(second, on_duplicate=OnDuplicate.REPLACE)
    assert refused.value.existing_ids == (str(first.id),)
    hours_pass(store)
    assert store.enqueue(second, on_duplicate=OnDuplicate.REPLACE).replaced == []
    assert holders(store) == {"key": second.id}


def test_of_one_call_the_last_job_replaces_the_others(store: Store) -> None:
    before = unique()
    store.enqueue(before)
    jobs = [unique(), unique(), unique()]
    stored = store.enqueue(*jobs, on_duplicate=OnDuplicate.REPLACE)
    assert stored.skipped == {jobs[0].id, jobs[1].id}
    assert stored.replaced == [before.id]
    assert stored_ids(store) == {jobs[2].id}


# -- throttle ---------------------------------------------------------------------------------------------------------


def test_a_key_is_taken_for_some_time_whatever_the_job_does(store: Store) -> None:
    store.enqueue(unique(), within_microseconds=HOUR)
    (claim,) = store.claim(store.worker())
    assert is_refused(store, unique())
    store.settle(Finished(claim))
    assert is_refused(store, unique())
    hours_pass(store)
    new = unique()
    store.enqueue(new, within_microseconds=HOUR)
    assert holders(store) == {"key": new.id}


def test_a_key_is_still_taken_after_that_time_while_its_job_is_unfinished(store: Store) -> None:
    store.enqueue(unique(), within_microseconds=1)
    assert is_refused(store, unique())


def test_maintenance_deletes_keys_that_no_job_needs(store: Store) -> None:
    keys = [unique("a"), unique("b"), unique("c")]
    store.enqueue(*keys, within_microseconds=HOUR)
    claims = store.claim(store.worker(), 2)
    store.settle(*map(Finished, claims))
    assert store.run(sweep_unique_keys(store.sql)) == (0, None)
    hours_pass(store)
    assert store.run(sweep_unique_keys(store.sql)) == (2, None)
    assert holders(store) == {"c": keys[2].id}


def test_a_job_that_was_retried_with_another_key_does_not_keep_the_first(store: Store) -> None:
    first, other = unique("a"), unique("b")
    store.enqueue(first, within_microseconds=HOUR)
    store.settle(*map(failed, store.claim(store.worker())))
    assert store.run(retry_with(store.sql, first.id, other)).ids == [first.id]
    assert is_refused(store, unique("a"))
    hours_pass(store)
    store.enqueue(second := unique("a"))
    assert holders(store) == {"a": second.id, "b": first.id}


def test_a_key_that_is_held_is_not_deleted_with_another_key_of_its_job(store: Store) -> None:
    first, other = unique("a"), unique("b")
    store.enqueue(first, within_microseconds=HOUR)
    store.settle(*map(failed, store.claim(store.worker())))
    store.run(retry_with(store.sql, first.id, other))
    store.ask("UPDATE steady_queue_uniquekey SET held_until = ? WHERE unique_key = ?", later(hours=-1), "b")
    store.ask("DELETE FROM steady_queue_readyexecution")
    store.ask("DELETE FROM steady_queue_job")
    assert store.run(sweep_unique_keys(store.sql)) == (1, None)
    assert holders(store) == {"a": first.id}


def test_a_key_is_taken_over_from_a_job_that_does_not_exist_or_has_ended(store: Store) -> None:
    gone, over, broken = unique("a"), unique("b"), unique("c")
    claims = {claim.job_id: claim for claim in store.claimed(gone, over, broken)}
    store.settle(Finished(claims[gone.id]), preserve=False)
    store.settle(Finished(claims[over.id]), failed(claims[broken.id]))
    insert = "INSERT INTO steady_queue_uniquekey (unique_key, job_id, until) VALUES (?, ?, 1)"
    for new in (gone, over, broken):
        store.ask(insert, new.unique_key, new.id)
    jobs = [unique("a"), unique("b"), unique("c")]
    store.enqueue(*jobs)
    assert holders(store) == {"a": jobs[0].id, "b": jobs[1].id, "c": jobs[2].id}


# -- jobs that wait again ---------------------------------------------------------------------------------------------


@each_way_back
@pytest.mark.parametrize("until", Until)
def test_a_job_that_waits_again_has_its_key(store: Store, back: Callable[[Claim], Outcome], until: Until) -> None:
    new = unique(until=until)
    (claim,) = store.claimed(new)
    assert store.settle(back(claim)).displaced == {}
    assert holders(store) == {"key": new.id}
    assert is_refused(store, unique())


@each_way_back
def test_a_job_that_waits_again_ends_if_another_has_taken_its_key(
    store: Store, back: Callable[[Claim], Outcome]
) -> None:
    first, second = unique(until=Until.STARTED), unique(until=Until.STARTED)
    (claim,) = store.claimed(first)
    store.enqueue(second)
    settled = store.settle(back(claim))
    assert (settled.displaced, list(settled.verdicts.values())) == ({first.id: second.id}, ["applied"])
    assert counts(store.alias) == {"ready": 1, "failed": 1}
    found = row(store.alias, "FailedExecution", first.id)
    assert found is not None
    assert (found["kind"], str(second.id) in found["message"]) == (FailureKind.CANCELLED.value, True)
    assert str(second.id) in str(store.find(first)[0].errors)


def test_the_slot_of_a_job_that_ends_like_that_is_free(store: Store) -> None:
    options: dict[str, Any] = {"until": Until.STARTED, "concurrency_key": "c", "concurrency_limit": 1}
    first, second = unique(**options), unique(**options)
    (claim,) = store.claimed(first)
    store.enqueue(second)
    assert store.settle(Released(claim)).promoted == 1
    assert store.status(first, second) == ["failed", "ready"]


def test_of_two_running_jobs_the_one_that_has_the_key_waits_again(store: Store) -> None:
    jobs = [unique(until=Until.STARTED), unique(until=Until.STARTED)]
    claims = [claim for new in jobs for claim in store.claimed(new)]
    settled = store.settle(*map(Released, claims))
    assert settled.displaced == {jobs[0].id: jobs[1].id}
    assert holders(store) == {"key": jobs[1].id}


def test_a_job_takes_its_key_back_from_one_that_has_started(store: Store) -> None:
    jobs = [unique(until=Until.STARTED), unique(until=Until.STARTED)]
    first, second = [claim for new in jobs for claim in store.claimed(new)]
    assert store.settle(Released(first)).displaced == {}
    assert holders(store) == {"key": jobs[0].id}
    store.settle(Finished(second))
    assert holders(store) == {"key": jobs[0].id}


def test_a_retry_by_hand_takes_the_key_again(store: Store) -> None:
    new = unique()
    store.settle(*map(failed, store.claimed(new)))
    assert store.retry(new) == [new.id]
    assert holders(store) == {"key": new.id}
    assert is_refused(store, unique())


def test_a_job_whose_key_is_taken_is_not_retried_by_hand(store: Store) -> None:
    first, second, plain = unique(), unique(), job()
    store.settle(*map(failed, store.claimed(first, plain)))
    store.enqueue(second)
    assert store.retry(first, plain) == [plain.id]
    assert (store.status(first, plain), holders(store)) == (["failed", "ready"], {"key": second.id})


def test_of_two_failed_jobs_with_the_key_the_older_one_is_retried(store: Store) -> None:
    jobs = [unique(), unique()]
    for new in jobs:
        store.settle(*map(failed, store.claimed(new)))
    assert store.retry(*jobs) == [jobs[0].id]
    assert store.status(*jobs) == ["ready", "failed"]


def test_dispatch_promotion_and_run_now_meet_no_conflict(store: Store) -> None:
    jobs = [
        unique("a", scheduled_at=later()),
        unique("b", concurrency_key="c", concurrency_limit=1),
        unique("d", concurrency_key="c", concurrency_limit=1),
    ]
    store.enqueue(*jobs)
    store.run(run_now(store.sql, [new.id for new in jobs]))
    store.run(dispatch(store.sql, 10))
    assert counts(store.alias) == {"ready": 3}
    assert len(holders(store)) == 3


# -- other ends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"scheduled_at": later()}, {"concurrency_key": "c", "concurrency_limit": 1}])
def test_a_discarded_job_frees_its_key(store: Store, options: dict[str, Any]) -> None:
    new = unique(**options)
    store.enqueue(new)
    store.discard(new)
    assert holders(store) == {}


def test_a_job_that_is_discarded_without_a_slot_frees_its_key(store: Store) -> None:
    store.claimed(limited())
    new = discarding(unique_key="key", unique_until=Until.FINISHED.value)
    assert store.enqueue(new).discarded == {new.id}
    assert holders(store) == {}


def test_an_expired_job_frees_its_key(store: Store) -> None:
    new = unique(expires_at=later(hours=-1))
    store.enqueue(new)
    assert store.run(sweep_expired(store.sql)).expired == [new.id]
    assert holders(store) == {}


def test_a_claim_that_is_refused_frees_the_key(store: Store) -> None:
    (claim,) = store.claimed(unique())
    store.settle(Failed(claim, report(), kind=FailureKind.EXPIRED, is_attempt=False))
    assert holders(store) == {}


def test_a_failed_job_that_is_cleared_leaves_no_key(store: Store) -> None:
    new = unique()
    store.settle(*map(failed, store.claimed(new)))
    query(store.alias, "UPDATE steady_queue_failedexecution SET failed_at = '2020-01-01 00:00:00'")
    assert store.run(clear_failed(store.sql, MARK, CleanupPosition())).jobs == 1
    assert count(store.alias, "uniquekey") == 0


# -- in a transaction of the caller -----------------------------------------------------------------------------------


def test_a_refused_enqueue_leaves_the_transaction_of_the_caller_intact(database: str) -> None:
    store = SyncStore(database)
    first, second = unique(), job()
    store.enqueue(first)
    with transaction.atomic(using=database):
        with pytest.raises(DuplicateTask):
            store.enqueue(job(), unique(), promoting=False)
        store.enqueue(second, promoting=False)
    assert stored_ids(store) == {first.id, second.id}


def test_after_a_rollback_the_key_is_free(database: str) -> None:
    store = SyncStore(database)
    with transaction.atomic(using=database):
        store.enqueue(unique(), promoting=False)
        assert is_refused(store, unique())
        transaction.set_rollback(True, using=database)
    assert not is_refused(store, unique())


@pytest.mark.parametrize("on_duplicate", [OnDuplicate.RETURN_EXISTING, OnDuplicate.REPLACE])
def test_a_job_of_the_same_transaction_counts(database: str, on_duplicate: OnDuplicate) -> None:
    store = SyncStore(database)
    first, second = unique(), unique()
    with transaction.atomic(using=database):
        store.enqueue(first, promoting=False)
        store.enqueue(second, promoting=False, on_duplicate=on_duplicate)
    assert stored_ids(store) == {first.id if on_duplicate is OnDuplicate.RETURN_EXISTING else second.id}
