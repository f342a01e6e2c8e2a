"""Overrun: slots that long jobs lose if their limits say so, and the outcome of those jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import transaction

from steady_queue.store.operations.maintenance.steps import find_work, free_ownerless, release_overrun_slots
from steady_queue.store.operations.processes import prune
from steady_queue.store.operations.processes.lost_claims import SettledClaims
from steady_queue.store.outcome import Finished, Released
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import PATH, failed, limited, report
from tests.support.store.stores import SyncStore
from tests.support.threads import held

if TYPE_CHECKING:
    from steady_queue.store.job import Claim, NewJob
    from tests.support.store.stores import Store

HOUR = 3_600_000_000
ALIVE = timedelta(minutes=5)


def long(key: str = "key", **options: Any) -> NewJob:
    """A limited job that loses its slot after an hour."""
    return limited(key, **{"overrun_after": HOUR, **options})


def age(store: Store, claim: Claim, hours: float = 2) -> None:
    """Make a claim that many seconds older."""
    from steady_queue.models import ClaimedExecution

    before = store.now() - timedelta(hours=hours)
    ClaimedExecution._base_manager.using(store.alias).filter(job_id=claim.job_id).update(claimed_at=before)


def age_slot(store: Store, job: NewJob, **span: float) -> None:
    from steady_queue.models import Semaphore

    before = store.now() - timedelta(**span)
    Semaphore._base_manager.using(store.alias).filter(job_id=job.id).update(acquired_at=before)


def overran(store: Store, *jobs: NewJob) -> list[Claim]:
    """The claims of jobs whose slots have just been freed."""
    claims = store.claimed(*jobs)
    for claim in claims:
        age(store, claim)
    assert {found.job_id for found in store.run(release_overrun_slots(store.sql))} == {job.id for job in jobs}
    return claims


def test_the_next_job_starts_when_a_job_overruns_its_time_limit(store: Store) -> None:
    holder, waiting, last = long(), long(), long()
    (claim,) = store.claimed(holder)
    store.enqueue(waiting, last)
    assert store.run(release_overrun_slots(store.sql)) == []
    age(store, claim)
    assert look_for(store).overrun
    (found,) = store.run(release_overrun_slots(store.sql))
    assert (found.job_id, found.task_path, found.concurrency_key) == (holder.id, PATH, "key")
    assert store.status(holder, waiting, last) == ["claimed", "ready", "blocked"]
    assert store.run(release_overrun_slots(store.sql)) == []
    assert not look_for(store).overrun


def look_for(store: Store) -> Any:
    return store.run(find_work(store.sql, alive=ALIVE, keep=None))


def test_a_job_that_keeps_its_slot_keeps_it_however_long_it_runs(store: Store) -> None:
    holder, waiting = limited(), limited()
    (claim,) = store.claimed(holder)
    store.enqueue(waiting)
    age(store, claim, 20_000)
    assert not look_for(store).overrun
    assert store.run(release_overrun_slots(store.sql)) == []
    assert store.status(waiting) == ["blocked"]


def test_a_job_that_has_waited_for_long_as_ready_keeps_its_slot(store: Store) -> None:
    holder, waiting = long(), long()
    store.enqueue(holder, waiting)
    age_slot(store, holder, hours=5)
    assert store.run(release_overrun_slots(store.sql)) == []
    assert store.status(holder, waiting) == ["ready", "blocked"]


def test_each_job_has_its_own_span(store: Store) -> None:
    short, longer = long(overrun_after=HOUR, to=2), long(overrun_after=3 * HOUR, to=2)
    for claim in store.claimed(short, longer):
        age(store, claim)
    assert [found.job_id for found in store.run(release_overrun_slots(store.sql))] == [short.id]


@pytest.mark.parametrize("end", [Finished, failed])
def test_the_end_of_a_job_without_its_slot_frees_no_slot_of_another_job(store: Store, end: Any) -> None:
    holder, waiting, last = long(), long(), long()
    store.enqueue(waiting, last, promoting=False)
    (claim,) = overran_first(store, holder)
    assert store.status(waiting, last) == ["ready", "blocked"]
    settlement = store.settle(end(claim))
    assert settlement.verdicts == {claim.claim_id: "applied"}
    assert settlement.promoted == 0
    assert store.status(waiting, last) == ["ready", "blocked"]


def overran_first(store: Store, holder: NewJob) -> list[Claim]:
    """The claim of a job that ran before the others, and has lost its slot to one of them."""
    holder = holder._replace(priority=100)
    return overran(store, holder)


def test_a_job_that_is_released_without_its_slot_is_blocked(store: Store) -> None:
    holder, waiting = long(), long()
    store.enqueue(waiting, promoting=False)
    (claim,) = overran_first(store, holder)
    store.settle(Released(claim))
    assert store.status(holder, waiting) == ["blocked", "ready"]
    blocked = row(store.alias, "BlockedExecution", holder.id)
    assert blocked is not None
    assert (blocked["concurrency_key"], blocked["priority"]) == ("key", 100)
    (claim,) = store.claim(store.worker("other"))
    store.settle(Finished(claim))
    assert store.status(holder, waiting) == ["ready", "finished"]


def test_a_job_that_is_released_to_a_free_key_is_ready_with_a_new_slot(store: Store) -> None:
    (claim,) = overran(store, long())
    assert count(store.alias, "semaphore") == 0
    assert store.settle(Released(claim)).promoted == 1
    assert counts(store.alias) == {"ready": 1}
    assert count(store.alias, "semaphore") == 1


def test_a_job_that_is_released_in_time_keeps_its_slot(store: Store) -> None:
    holder, waiting, plain = long(), long(), limited("other")
    claims = store.claimed(holder, plain)
    store.enqueue(waiting)
    store.settle(*map(Released, claims))
    assert store.status(holder, waiting, plain) == ["ready", "blocked", "ready"]


def test_a_lost_reply_and_a_dead_process_also_release_jobs_to_blocked(store: Store) -> None:
    first, second, waiting = long(), long("two"), long()
    process = store.worker()
    store.enqueue(waiting, long("two", priority=-1), promoting=False)
    claims = store.claimed(first._replace(priority=9), second._replace(priority=9), process_id=process)
    for claim in claims:
        age(store, claim)
    assert len(store.run(release_overrun_slots(store.sql))) == 2
    assert store.run(prune.release_claims(store.sql, {claims[0].claim_id: first.id}, "worker")).total == 1
    assert store.status(first, waiting) == ["blocked", "ready"]
    ended = prune.prune_exited_process(store.sql, process, "worker", report(), release=[claims[1].claim_id])
    assert store.run(ended) == SettledClaims([], [second.id], [], [], [])
    assert store.status(second) == ["blocked"]


def test_a_job_that_is_claimed_again_has_its_whole_time_limit_again(store: Store) -> None:
    holder = long()
    (claim,) = store.claimed(holder)
    age(store, claim)
    store.settle(Released(claim))
    store.claim(store.worker("other"))
    assert store.run(release_overrun_slots(store.sql)) == []


@pytest.mark.only_on("postgres", "mariadb")
def test_a_job_that_is_just_being_settled_is_left_alone(database: str) -> None:
    store = SyncStore(database)
    holder = long()
    (claim,) = store.claimed(holder)
    age(store, claim)
    with held(database, ("SELECT job_id FROM steady_queue_claimedexecution FOR UPDATE", [])):
        assert store.run(release_overrun_slots(store.sql)) == []
    assert len(store.run(release_overrun_slots(store.sql))) == 1


def test_a_release_inside_a_transaction_finds_the_slot_that_was_freed_before(database: str) -> None:
    store = SyncStore(database)
    (claim,) = overran(store, long())
    store.enqueue(long())
    with transaction.atomic(using=database):
        store.settle(Released(claim))
    assert counts(database) == {"ready": 1, "blocked": 1}


def test_the_limits_of_the_code_decide_which_jobs_start_while_a_long_job_runs(store: Store) -> None:
    holder, *waiting = [long() for _ in range(4)]
    (claim,) = store.claimed(holder)
    store.enqueue(*waiting)
    age(store, claim)
    store.run(release_overrun_slots(store.sql, {PATH: 2}))
    assert store.status(*waiting) == ["ready", "ready", "blocked"]
    store.discard(*waiting)


# -- slots without an owner -------------------------------------------------------------------------------------------


def ownerless(store: Store, job: NewJob) -> None:
    """Leave a slot without an owner, as only a bug could."""
    store.enqueue(job)
    query(store.alias, "DELETE FROM steady_queue_readyexecution")


def freed(store: Store, **durations: timedelta) -> int:
    return store.run(free_ownerless(store.sql, after=timedelta(minutes=3), durations=durations, limits={}))


def test_a_slot_without_an_owner_is_freed_after_the_duration_of_its_task(store: Store) -> None:
    lost, waiting = limited(), limited()
    ownerless(store, lost)
    store.enqueue(waiting)
    assert look_for(store).ownerless
    age_slot(store, lost, hours=1)
    assert store.run(free_ownerless(store.sql, after=timedelta(0), durations={PATH: timedelta(hours=2)})) == 0
    assert store.run(free_ownerless(store.sql, after=timedelta(days=1), durations={PATH: timedelta(minutes=30)})) == 1
    assert store.status(waiting) == ["ready"]
    query(store.alias, "DELETE FROM steady_queue_job WHERE id NOT IN (SELECT job_id FROM steady_queue_readyexecution)")


def test_a_slot_without_an_owner_of_a_task_not_in_the_code_is_freed_after_the_default(store: Store) -> None:
    lost = limited(task_path="gone.from.the.code")
    ownerless(store, lost)
    assert freed(store) == 0
    query(store.alias, "DELETE FROM steady_queue_job")
    assert freed(store) == 0
    age_slot(store, lost, minutes=4)
    assert freed(store) == 1
    assert count(store.alias, "semaphore") == 0
