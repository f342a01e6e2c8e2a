"""Actions of the store: retry failed jobs, discard jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.job import Lane
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import failed, job, later, limited
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import Store


def broken(store: Store, *jobs: NewJob) -> None:
    """Let the jobs run and fail."""
    store.settle(*map(failed, store.claimed(*jobs)))
    assert store.status(*jobs) == ["failed"] * len(jobs)


# -- retry ------------------------------------------------------------------------------------------------------------


def test_a_retried_job_is_ready_and_its_failed_row_is_gone(store: Store) -> None:
    new = job(queue_name="mail", priority=6)
    broken(store, new)
    assert store.retry(new) == [new.id]
    assert row(store.alias, "ReadyExecution", new.id) == {
        "job_id": new.id,
        "queue_name": "mail",
        "lane": Lane.ASYNC,
        "priority": 6,
    }
    assert counts(store.alias) == {"ready": 1}


def test_a_retried_job_keeps_its_history(store: Store) -> None:
    new = job()
    broken(store, new)
    before = row(store.alias, "Job", new.id, "id")
    store.retry(new)
    assert row(store.alias, "Job", new.id, "id") == before


def test_a_manual_retry_grants_the_automatic_retries_again(store: Store) -> None:
    new, other = job(), job()
    broken(store, new, other)
    query(store.alias, "UPDATE steady_queue_job SET retries = 1")
    store.retry(new)
    (claim,) = store.claim(store.worker())
    assert (claim.job_id, claim.retries, claim.attempts) == (new.id, 0, 1)
    assert row(store.alias, "Job", other.id, "id")["retries"] == 1  # type: ignore[index]


def test_many_jobs_are_retried_and_counted(store: Store) -> None:
    jobs = [job() for _ in range(30)]
    broken(store, *jobs)
    assert sorted(store.retry(*jobs[:20])) == [new.id for new in jobs[:20]]
    assert counts(store.alias) == {"ready": 20, "failed": 10}


def test_retried_limited_jobs_queue_for_a_slot_and_all_are_counted(store: Store) -> None:
    jobs = [limited(to=2) for _ in range(4)]
    for one, two in (jobs[:2], jobs[2:]):
        broken(store, one, two)
    assert sorted(store.retry(*jobs)) == [new.id for new in jobs]
    assert store.status(*jobs) == ["ready", "ready", "blocked", "blocked"]
    assert counts(store.alias) == {"ready": 2, "blocked": 2}


def test_a_retried_limited_job_does_not_overtake_the_key(store: Store) -> None:
    old, holder = limited(), limited()
    broken(store, old)
    store.enqueue(holder)
    store.retry(old)
    assert store.status(old, holder) == ["blocked", "ready"]


def test_limited_and_plain_jobs_are_retried_together(store: Store) -> None:
    plain, one, two = job(), limited("a"), limited("b")
    broken(store, plain, one, two)
    assert len(store.retry(plain, one, two)) == 3
    assert counts(store.alias) == {"ready": 3}
    assert count(store.alias, "semaphore") == 2


def test_only_failed_jobs_are_retried(store: Store) -> None:
    (claim, running) = store.claimed(job(), job())
    store.settle(Finished(claim))
    ready, scheduled = job(), job(scheduled_at=later())
    holder, blocked = limited(), limited()
    store.enqueue(ready, scheduled, holder, blocked)
    before = counts(store.alias)
    others = [job()._replace(id=claim.job_id), job()._replace(id=running.job_id), job()]
    assert store.retry(ready, scheduled, holder, blocked, *others) == []
    assert counts(store.alias) == before


def test_a_job_is_retried_once_however_often_it_is_named(store: Store) -> None:
    new = job()
    broken(store, new)
    assert store.retry(new, new) == [new.id]
    assert store.retry(new) == []
    assert counts(store.alias) == {"ready": 1}


def test_a_retry_of_no_jobs_succeeds(store: Store) -> None:
    assert store.retry() == []


# -- discard ----------------------------------------------------------------------------------------------------------


def test_a_job_that_does_not_run_is_discarded_from_every_state(store: Store) -> None:
    broken_one = job()
    broken(store, broken_one)
    ready, scheduled, holder, blocked = job(), job(scheduled_at=later()), limited(), limited()
    store.enqueue(ready, scheduled, holder, blocked)
    for new in (ready, scheduled, blocked, broken_one):
        assert store.discard(new) == [new.id]
        assert store.find(new) == []
    assert store.status(holder) == ["ready"]
    assert counts(store.alias) == {"ready": 1}
    assert count(store.alias, "job") == 1


def test_jobs_are_discarded_together_wherever_they_stand(store: Store) -> None:
    jobs = [job(), job(scheduled_at=later()), limited(), limited(), job()]
    broken(store, jobs[0])
    store.enqueue(*jobs[1:])
    assert store.discard(*jobs) == [new.id for new in jobs]
    assert counts(store.alias) == {}
    assert (count(store.alias, "job"), count(store.alias, "semaphore")) == (0, 0)


def test_a_claimed_job_is_not_discarded_and_nothing_about_it_changes(store: Store) -> None:
    new, other = limited("a"), job()
    (claim,) = store.claimed(new)
    store.enqueue(other)
    assert store.discard(new, other) == [other.id]
    assert store.status(new) == ["claimed"]
    assert row(store.alias, "Semaphore", new.id) is not None
    assert store.settle(Finished(claim)).verdicts[claim.claim_id] == "applied"


def test_a_finished_job_is_not_discarded(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Finished(claim))
    assert store.discard(new) == []
    assert store.status(new) == ["finished"]


def test_discarding_a_ready_limited_job_unblocks_the_next(store: Store) -> None:
    holder, waiting, last = limited(), limited(queue_name="mail"), limited(priority=-1)
    store.enqueue(holder, waiting, last)
    store.discard(holder)
    assert store.status(waiting, last) == ["ready", "blocked"]
    assert count(store.alias, "semaphore") == 1


def test_discarding_several_holders_unblocks_as_many(store: Store) -> None:
    jobs = [limited(to=2) for _ in range(5)]
    store.enqueue(*jobs)
    store.discard(*jobs[:2])
    assert store.status(*jobs[2:]) == ["ready", "ready", "blocked"]


def test_discarding_a_blocked_job_leaves_the_slots_alone(store: Store) -> None:
    holder, waiting, last = limited(), limited(), limited()
    store.enqueue(holder, waiting, last)
    before = row(store.alias, "Semaphore", holder.id)
    store.discard(waiting)
    assert row(store.alias, "Semaphore", holder.id) == before
    assert store.status(holder, last) == ["ready", "blocked"]


def test_discarding_a_holder_together_with_the_next_unblocks_the_one_after(store: Store) -> None:
    holder, waiting, last = limited(), limited(), limited()
    store.enqueue(holder, waiting, last)
    assert store.discard(waiting, holder) == [waiting.id, holder.id]
    assert store.status(last) == ["ready"]


def test_a_job_is_discarded_once_however_often_it_is_named(store: Store) -> None:
    new = job()
    store.enqueue(new)
    assert store.discard(new, new) == [new.id]
    assert store.discard(new) == []


def test_jobs_that_do_not_exist_are_not_discarded(store: Store) -> None:
    assert store.discard() == []
    assert store.discard(job(), job()) == []


def test_hundreds_are_discarded_and_the_others_stay(store: Store) -> None:
    jobs = [job(queue_name="ab"[n % 2]) for n in range(400)]
    store.enqueue(*jobs)
    assert store.discard(*jobs[::2]) == [new.id for new in jobs[::2]]
    assert query(store.alias, "SELECT DISTINCT queue_name FROM steady_queue_readyexecution") == [("b",)]


@pytest.mark.only_on("sqlite")  # what it took was time in Python
@pytest.mark.timeout(20)
def test_ten_thousand_are_discarded_in_a_reasonable_time(database: str) -> None:
    store = SyncStore(database)
    jobs = [job() for _ in range(10_000)]
    store.enqueue(*jobs)
    assert len(store.discard(*jobs)) == 10_000
