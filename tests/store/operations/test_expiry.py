"""Expiry: a job that was not started in time never runs, wherever it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from steady_queue.errors import TaskExpired
from steady_queue.jobs.definition.expiry import refuse_expired
from steady_queue.store.job import FailureKind
from steady_queue.store.operations.actions.job_actions import run_now
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.maintenance.steps import find_work
from steady_queue.store.operations.maintenance.sweeps import sweep_expired
from steady_queue.store.outcome import Finished, Released, Retried, Snoozed
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import failed, job, later, limited, report
from tests.support.store.rows import holders, pause, slots, store_blocked

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store

EXPIRED_PATH = f"{TaskExpired.__module__}.{TaskExpired.__qualname__}"


def past_expiry(store: Store, *jobs: NewJob) -> None:
    """Make the time of the jobs pass."""
    for new in jobs:
        for table, column in (("job", "id"), ("expiry", "job_id")):
            text = f"UPDATE steady_queue_{table} SET expires_at = ? WHERE {column} = ?"
            store.ask(text, later(hours=-1), new.id)


def failure_of(store: Store, new: NewJob) -> tuple[str, int]:
    found = row(store.alias, "FailedExecution", new.id)
    assert found is not None
    return found["exception_class"], found["kind"]


def has_expired(store: Store, *jobs: NewJob) -> bool:
    return all(
        failure_of(store, new) == (EXPIRED_PATH, FailureKind.EXPIRED.value)
        and (record := store.find(new)[0]).attempts == 0
        and EXPIRED_PATH in str(record.errors)
        for new in jobs
    )


def dispatch_now(store: Store) -> int:
    """Make every scheduled job due and dispatch them; returns how many."""
    store.ask("UPDATE steady_queue_scheduledexecution SET scheduled_at = ?", later(hours=-1))
    return store.run(dispatch(store.sql, 10)).moved


def sweep(store: Store) -> list[UUID]:
    swept = store.run(sweep_expired(store.sql))
    assert count(store.alias, "expiry") == 0 or not swept.expired
    return swept.expired


# -- enqueue ----------------------------------------------------------------------------------------------------------


def test_only_a_job_that_expires_has_an_expiry_row(store: Store) -> None:
    jobs = [job(), job(expires_at=later()), limited(expires_at=later()), job(expires_at=later(), scheduled_at=later())]
    store.enqueue(*jobs)
    assert count(store.alias, "expiry") == 3
    assert [record.expires_at is None for record in store.find(*jobs)] == [True, False, False, False]


# -- claim ------------------------------------------------------------------------------------------------------------


def test_r9_a_job_that_is_claimed_too_late_is_refused_without_an_attempt(store: Store) -> None:
    new, other = job(expires_at=later()), job(expires_at=later())
    store.enqueue(new, other)
    past_expiry(store, new)
    claims = {claim.job_id: claim for claim in store.claim(store.worker(), 2)}
    assert refuse_expired(claims[other.id]) is None
    refused = refuse_expired(claims[new.id])
    assert refused is not None
    store.settle(refused, Finished(claims[other.id]))
    assert has_expired(store, new)
    assert counts(store.alias) == {"failed": 1}


def test_a_job_that_has_been_started_does_not_expire(store: Store) -> None:
    new = job(expires_at=later())
    (claim,) = store.claimed(new)
    past_expiry(store, new)
    assert sweep(store) == []
    store.settle(Retried(claim, report(), 0))
    assert dispatch_now(store) == 1
    (claim,) = store.claim(store.worker())
    assert refuse_expired(claim) is None
    store.settle(Finished(claim))


@pytest.mark.parametrize("outcome", [Snoozed, Released])
def test_a_task_whose_function_was_called_does_not_expire(
    store: Store, outcome: type[Snoozed] | type[Released]
) -> None:
    new = job(expires_at=later())
    (claim,) = store.claimed(new)
    store.settle(Snoozed(claim, 0, was_started=True) if outcome is Snoozed else Released(claim, was_started=True))
    assert store.find(new)[0].expires_at is None
    assert dispatch_now(store) == (outcome is Snoozed)
    (claim,) = store.claim(store.worker())
    assert refuse_expired(claim) is None
    store.settle(Finished(claim))


def test_a_job_that_was_snoozed_before_it_was_started_expires_all_the_same(store: Store) -> None:
    new = job(expires_at=later())
    (claim,) = store.claimed(new)
    store.settle(Snoozed(claim, 0))
    assert store.find(new)[0].expires_at is not None
    past_expiry(store, new)
    assert sweep(store) == [new.id]


def test_a_job_that_was_released_before_it_was_started_expires_all_the_same(store: Store) -> None:
    new = job(expires_at=later())
    (claim,) = store.claimed(new)
    past_expiry(store, new)
    store.settle(Released(claim))
    (claim,) = store.claim(store.worker())
    assert refuse_expired(claim) is not None
    store.settle(Released(claim))


# -- dispatch and promotion -------------------------------------------------------------------------------------------


def test_t5_a_job_that_is_dispatched_too_late_ends_and_the_others_are_dispatched(store: Store) -> None:
    jobs = [make(scheduled_at=later(), expires_at=later()) for make in (job, limited, job)]
    store.enqueue(*jobs)
    past_expiry(store, *jobs[:2])
    assert dispatch_now(store) == 3
    assert has_expired(store, *jobs[:2])
    assert store.status(*jobs) == ["failed", "failed", "ready"]


@pytest.mark.parametrize("number", [1, 5, 9])
def test_an_expired_job_takes_no_slot_and_the_next_ones_are_promoted(store: Store, number: int) -> None:
    late = [limited(to=2, expires_at=later(), priority=5) for _ in range(number)]
    timely = [limited(to=2, expires_at=later()) for _ in range(3)]
    store_blocked(store, *late, *timely)
    past_expiry(store, *late)
    assert store.promote({"key": 2}) == [new.id for new in timely[:2]]
    assert has_expired(store, *late)
    assert (slots(store), counts(store.alias)) == ([1, 2], {"failed": number, "ready": 2, "blocked": 1})


def test_a_settle_promotes_past_an_expired_job(store: Store) -> None:
    (claim,) = store.claimed(limited())
    late, timely = limited(expires_at=later()), limited(expires_at=later())
    store.enqueue(late, timely)
    past_expiry(store, late)
    assert store.settle(Finished(claim)).promoted == 1
    assert store.status(late, timely) == ["failed", "ready"]


# -- maintenance ------------------------------------------------------------------------------------------------------


def test_the_sweep_ends_what_waits_anywhere_and_promotes_the_next_ones(store: Store) -> None:
    holder, waiting = limited(expires_at=later()), limited()
    jobs = [job(expires_at=later()), job(expires_at=later(), scheduled_at=later(hours=2)), holder]
    pause(store, "default")
    store.enqueue(*jobs, waiting)
    past_expiry(store, *jobs)
    assert set(sweep(store)) == {new.id for new in jobs}
    assert has_expired(store, *jobs)
    assert holders(store, waiting) == [waiting]
    assert (slots(store), count(store.alias, "expiry")) == ([1], 0)


def test_the_sweep_leaves_what_may_still_be_started(store: Store) -> None:
    timely, plain = job(expires_at=later()), job()
    store.enqueue(timely, plain)
    assert sweep(store) == []
    assert (counts(store.alias), count(store.alias, "expiry")) == ({"ready": 2}, 1)


@pytest.mark.parametrize("end", [Finished, failed])
def test_the_sweep_ignores_what_has_ended_and_deletes_its_row(store: Store, end: Callable[[Claim], Outcome]) -> None:
    new = job(expires_at=later())
    store.settle(*map(end, store.claimed(new)))
    past_expiry(store, new)
    before = store.find(new)
    assert sweep(store) == []
    assert (store.find(new), count(store.alias, "expiry")) == (before, 0)


def test_the_sweep_reports_what_other_operations_have_ended(store: Store) -> None:
    late = limited(expires_at=later())
    store_blocked(store, late)
    past_expiry(store, late)
    store.promote({"key": 1})
    assert sweep(store) == [late.id]
    assert sweep(store) == []


def test_maintenance_finds_out_by_one_statement_whether_something_expires(store: Store) -> None:
    new = job(expires_at=later())
    store.enqueue(new)
    look = find_work(store.sql, alive=timedelta(hours=1), keep=None)
    assert not store.run(look).expired
    past_expiry(store, new)
    assert store.run(look).expired


# -- actions ----------------------------------------------------------------------------------------------------------


def test_a_retry_by_hand_runs_an_expired_job_all_the_same(store: Store) -> None:
    new = job(expires_at=later())
    store.enqueue(new)
    past_expiry(store, new)
    sweep(store)
    assert store.retry(new) == [new.id]
    (claim,) = store.claim(store.worker())
    assert refuse_expired(claim) is None
    assert store.find(new)[0].expires_at is None
    store.settle(Finished(claim))


def test_run_now_does_not_change_when_a_job_expires(store: Store) -> None:
    new = job(expires_at=later(), scheduled_at=later())
    store.enqueue(new)
    past_expiry(store, new)
    assert store.run(run_now(store.sql, [new.id])).ids == [new.id]
    assert sweep(store) == [new.id]
    assert has_expired(store, new)


def test_a_discarded_job_leaves_a_row_that_is_swept_in_time(store: Store) -> None:
    new = job(expires_at=later())
    store.enqueue(new)
    assert store.discard(new) == [new.id]
    query(store.alias, "UPDATE steady_queue_expiry SET expires_at = '2020-01-01 00:00:00'")
    assert sweep(store) == []
    assert count(store.alias, "expiry") == 0
