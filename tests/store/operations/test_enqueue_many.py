"""Enqueue of many jobs: all or none, and once only after a lost reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.errors import StoreDataError
from steady_queue.store.job import Lane, NewJob
from steady_queue.store.operations import enqueue as enqueueing
from steady_queue.store.operations.enqueue import INSERT_ROWS, Enqueued
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts
from tests.support.store.jobs import discarding, job, later, limited
from tests.support.store.rows import all_jobs
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.store.stores import Store


# -- many jobs --------------------------------------------------------------------------------------------------------


def mixture() -> dict[str, list[NewJob]]:
    """Jobs by their state after the enqueue."""
    return {
        "ready": [job(queue_name=f"q{n % 3}", priority=n, lane=Lane(n % 3)) for n in range(7)],
        "past": [job(scheduled_at=later(hours=-1)) for _ in range(2)],
        "scheduled": [job(scheduled_at=later(minutes=n + 10), priority=n) for n in range(4)],
        "first": [limited("a"), limited("b", 2), limited("b", 2)],
        "blocked": [limited("a"), limited("b", 2), limited("a")],
        "scheduled and limited": [limited("a", scheduled_at=later())],
    }


def test_a_bulk_of_all_kinds_puts_each_job_where_it_belongs(store: Store) -> None:
    kinds = mixture()
    store.enqueue(*(new for jobs in kinds.values() for new in jobs))
    assert counts(store.alias) == {"ready": 12, "scheduled": 5, "blocked": 3}
    assert count(store.alias, "job") == 20
    assert count(store.alias, "semaphore") == 3
    assert {str(record.status) for record in store.find(*kinds["ready"], *kinds["past"], *kinds["first"])} == {"ready"}
    assert {str(record.status) for record in store.find(*kinds["blocked"])} == {"blocked"}
    assert {str(found.status) for found in store.find(*kinds["scheduled"], *kinds["scheduled and limited"])} == {
        "scheduled"
    }


def test_a_bulk_stores_every_job_exactly(store: Store) -> None:
    jobs = sorted((new for jobs in mixture().values() for new in jobs), key=lambda new: new.id)
    store.enqueue(*jobs)
    assert all_jobs(store) == jobs


def test_an_enqueue_of_no_jobs_succeeds(store: Store) -> None:
    assert store.enqueue() == Enqueued()
    assert store.enqueue(is_repeated=True) == Enqueued()
    assert count(store.alias, "job") == 0


def test_more_jobs_than_fit_into_one_insert_are_stored(database: str) -> None:
    SyncStore(database).enqueue(*[job() for _ in range(INSERT_ROWS + 1)])
    assert count(database, "job") == INSERT_ROWS + 1
    assert counts(database) == {"ready": INSERT_ROWS + 1}


@pytest.mark.parametrize("number", [10, 11, 20])
def test_no_job_is_lost_between_two_inserts(store: Store, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(enqueueing, "INSERT_ROWS", 10)
    ready = [job() for _ in range(number)]
    scheduled = [job(scheduled_at=later()) for _ in range(number)]
    blocked = [limited() for _ in range(number)]
    store.enqueue(*ready, *scheduled, *blocked)
    assert all_jobs(store) == [*ready, *scheduled, *blocked]
    assert counts(store.alias) == {"ready": number + 1, "scheduled": number, "blocked": number - 1}


# -- all or none ------------------------------------------------------------------------------------------------------

ALL_OR_NONE: dict[str, Callable[[], list[NewJob]]] = {
    "one": list,
    "ready": lambda: [job() for _ in range(3)],
    "scheduled": lambda: [job(scheduled_at=later()) for _ in range(3)],
    "limited": lambda: [limited() for _ in range(3)],
    "mixture": lambda: [new for jobs in mixture().values() for new in jobs],
}


@pytest.mark.parametrize("others", ALL_OR_NONE.values(), ids=ALL_OR_NONE.keys())
def test_a_bulk_with_one_job_that_cannot_be_stored_stores_nothing(
    store: Store, others: Callable[[], list[NewJob]]
) -> None:
    there = job(queue_name="there")
    store.enqueue(there)
    for jobs in ([there._replace(queue_name="twice"), *others()], [*others(), there]):
        with pytest.raises(StoreDataError) as caught:
            store.enqueue(*jobs)
        assert caught.value.applied == "no"
        assert all_jobs(store) == [there]
        assert counts(store.alias) == {"ready": 1}
        assert count(store.alias, "semaphore") == 0


def test_a_bulk_of_several_inserts_of_which_the_last_fails_stores_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enqueueing, "INSERT_ROWS", 2)
    there = job()
    store.enqueue(there)
    with pytest.raises(StoreDataError):
        store.enqueue(job(), job(), job(), job(), there)
    assert all_jobs(store) == [there]


def test_a_store_that_refused_jobs_takes_others(store: Store) -> None:
    there = job()
    store.enqueue(there)
    for _ in range(3):
        with pytest.raises(StoreDataError):
            store.enqueue(job(), there)
    store.enqueue(job())
    assert counts(store.alias) == {"ready": 2}


@pytest.mark.only_on("postgres", "mariadb")  # SQLite stores texts of any length: the enqueuer refuses them before
def test_a_name_longer_than_its_column_is_refused_not_cut(store: Store) -> None:
    long = "x" * 256
    for new in (job(queue_name=long), job(task_path=long), job(backend=long), limited(long + long + "x")):
        with pytest.raises(StoreDataError):
            store.enqueue(job(), new)
        assert count(store.alias, "job") == 0


# -- after a lost reply -----------------------------------------------------------------------------------------------


def test_jobs_that_had_not_been_stored_are_stored_when_sent_again(store: Store) -> None:
    kinds = mixture()
    store.enqueue(*(new for jobs in kinds.values() for new in jobs), is_repeated=True)
    assert counts(store.alias) == {"ready": 12, "scheduled": 5, "blocked": 3}


def test_jobs_that_had_been_stored_are_not_stored_twice_when_sent_again(store: Store) -> None:
    jobs = sorted((new for jobs in mixture().values() for new in jobs), key=lambda new: new.id)
    store.enqueue(*jobs)
    for _ in range(2):
        assert store.enqueue(*jobs, is_repeated=True) == Enqueued()
    assert all_jobs(store) == jobs
    assert counts(store.alias) == {"ready": 12, "scheduled": 5, "blocked": 3}


def test_a_job_sent_again_after_it_ran_does_not_run_twice(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.enqueue(new, is_repeated=True)
    assert counts(store.alias) == {"claimed": 1}
    store.settle(Finished(claim))
    store.enqueue(new, is_repeated=True)
    assert counts(store.alias) == {}
    assert count(store.alias, "job") == 1


def test_a_bulk_sent_again_although_its_first_job_was_discarded_stores_nothing_twice(store: Store) -> None:
    store.enqueue(limited("taken"))
    refused, plain = discarding("taken"), job()
    assert store.enqueue(refused, plain).discarded == {refused.id}
    store.enqueue(refused, plain, is_repeated=True)
    assert counts(store.alias) == {"ready": 2}
    assert count(store.alias, "job") == 2
