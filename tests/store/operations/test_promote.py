"""Promote: blocked jobs become ready while their concurrency key has free slots."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from steady_queue.store.job import Lane
from steady_queue.store.operations.promote import lock_id
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import failed, later, limited
from tests.support.store.rows import holders, slots, store_blocked
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.store.stores import Store


# -- in the database --------------------------------------------------------------------------------------------------


def test_the_first_of_a_key_is_ready_and_the_others_are_blocked(store: Store) -> None:
    jobs = [limited() for _ in range(4)]
    for new in jobs:
        store.enqueue(new)
    assert holders(store, *jobs) == jobs[:1]
    assert counts(store.alias) == {"ready": 1, "blocked": 3}


def test_as_many_as_the_limit_are_ready(store: Store) -> None:
    jobs = [limited(to=3) for _ in range(5)]
    store.enqueue(*jobs)
    assert holders(store, *jobs) == jobs[:3]
    assert slots(store) == [1, 2, 3]


def test_different_keys_are_independent(store: Store) -> None:
    jobs = [limited(key) for key in ("a", "b", "a", "b", "c")]
    store.enqueue(*jobs)
    assert holders(store, *jobs) == [jobs[0], jobs[1], jobs[4]]


def test_keys_that_share_a_lock_id_are_independent(store: Store) -> None:
    twins = twin_keys()
    jobs = [limited(key) for key in (*twins, *twins)]
    store.enqueue(*jobs)
    assert holders(store, *jobs) == jobs[:2]


def twin_keys() -> tuple[str, str]:
    first = "twin"
    return first, next(key for n in range(100_000) if lock_id(key := f"{first}{n}") == lock_id(first))


def test_promotion_returns_the_jobs_it_made_ready(store: Store) -> None:
    jobs = [limited(to=2) for _ in range(3)]
    store_blocked(store, *jobs)
    assert store.promote({"key": 2}) == [new.id for new in jobs[:2]]
    assert store.promote({"key": 2}) == []


def test_promotion_goes_by_priority_then_age(store: Store) -> None:
    low, high, older, newer = (limited(priority=priority) for priority in (-5, 7, 3, 3))
    store_blocked(store, low, high, older, newer)
    worker = store.worker()
    order: list[UUID] = []
    store.promote({"key": 1})
    while claims := store.claim(worker):
        order.extend(claim.job_id for claim in claims)
        store.settle(*map(Finished, claims))
    assert order == [new.id for new in (high, older, newer, low)]


def test_promotion_of_many_at_once_takes_exactly_the_first_in_order(store: Store) -> None:
    jobs = [limited(to=25, priority=priority) for priority in range(50)]
    random.Random(7).shuffle(jobs)
    store_blocked(store, *jobs)
    promoted = store.promote({"key": 25})
    assert promoted == [new.id for new in sorted(jobs, key=lambda new: -new.priority)[:25]]


@pytest.mark.only_on("postgres")
@pytest.mark.parametrize("ways", [("nestloop",), ("nestloop", "hashjoin"), ("hashjoin", "mergejoin"), ("indexscan",)])
def test_the_order_holds_with_every_plan_of_the_server(database: str, ways: tuple[str, ...]) -> None:
    # Django's connection, or a pooler's, plans as it likes: the order must be part of the statements.
    store = SyncStore(database)
    jobs = [limited(to=25, priority=priority) for priority in range(50)]
    random.Random(7).shuffle(jobs)
    store_blocked(store, *jobs)
    query(database, "ANALYZE")
    for way in ways:
        query(database, f"SET enable_{way} = off")
    first = [new.id for new in sorted(jobs, key=lambda new: -new.priority)[:25]]
    assert store.promote({"key": 25}) == first
    assert [claim.job_id for claim in store.claim(store.worker(), 25)] == first


def test_promotion_of_many_keys_serves_each_in_its_own_order(store: Store) -> None:
    jobs = [limited(f"k{n % 10}", 2, priority=n // 10) for n in range(60)]
    random.Random(7).shuffle(jobs)
    store_blocked(store, *jobs)
    promoted = store.promote({f"k{n}": 2 for n in range(10)})
    assert set(promoted) == {new.id for new in jobs if new.priority >= 4}


def test_a_promoted_job_keeps_its_queue_priority_and_lane(store: Store) -> None:
    holder, waiting = limited(), limited(queue_name="mail", priority=42, lane=Lane.THREAD)
    store.enqueue(holder)
    store.enqueue(waiting)
    assert row(store.alias, "ReadyExecution", waiting.id) is None
    store.discard(holder)
    assert row(store.alias, "ReadyExecution", waiting.id) == {
        "job_id": waiting.id,
        "queue_name": "mail",
        "lane": Lane.THREAD,
        "priority": 42,
    }


def test_a_slot_is_held_from_the_databases_time_of_its_promotion(store: Store) -> None:
    before = store.now()
    new = limited()
    store.enqueue(new)
    slot = row(store.alias, "Semaphore", new.id)
    assert slot is not None
    assert before <= slot["acquired_at"] <= store.now()


def test_a_key_with_nothing_blocked_is_promoted_without_effect(store: Store) -> None:
    assert store.promote({"key": 1, "other": 3}) == []
    assert store.promote({}) == []
    assert count(store.alias, "semaphore") == 0


def test_a_scheduled_job_is_not_promoted(store: Store) -> None:
    store.enqueue(limited(scheduled_at=later()))
    assert store.promote({"key": 1}) == []
    assert counts(store.alias) == {"scheduled": 1}


def test_a_slot_that_was_freed_in_the_middle_is_allocated_again(store: Store) -> None:
    jobs = [limited(to=3) for _ in range(3)]
    store.enqueue(*jobs)
    middle = row(store.alias, "Semaphore", jobs[1].id)
    assert middle is not None
    store.discard(jobs[1])
    latest = limited(to=3)
    store.enqueue(latest)
    slot = row(store.alias, "Semaphore", latest.id)
    assert slot is not None
    assert slot["slot"] == middle["slot"]
    assert slots(store) == [1, 2, 3]


# -- the end of a holder ----------------------------------------------------------------------------------------------


def test_a_finished_job_makes_the_next_one_ready(store: Store) -> None:
    holder, waiting = limited(), limited()
    (claim,) = store.claimed(holder)
    store.enqueue(waiting)
    assert store.settle(Finished(claim)).promoted == 1
    assert store.status(holder, waiting) == ["finished", "ready"]
    assert slots(store) == [1]


def test_a_failed_job_makes_the_next_one_ready(store: Store) -> None:
    holder, waiting = limited(), limited()
    (claim,) = store.claimed(holder)
    store.enqueue(waiting)
    assert store.settle(failed(claim)).promoted == 1
    assert store.status(holder, waiting) == ["failed", "ready"]


def test_a_discarded_holder_makes_the_next_one_ready(store: Store) -> None:
    holder, waiting = limited(), limited()
    store.enqueue(holder, waiting)
    store.discard(holder)
    assert store.status(waiting) == ["ready"]


def test_the_last_job_of_a_key_leaves_no_slot(store: Store) -> None:
    (claim,) = store.claimed(limited())
    assert store.settle(Finished(claim)).promoted == 0
    assert slots(store) == []


def test_several_holders_that_end_together_make_as_many_ready(store: Store) -> None:
    holders_, waiting = [limited(to=3) for _ in range(3)], [limited(to=3) for _ in range(5)]
    claims = store.claimed(*holders_)
    store.enqueue(*waiting)
    assert store.settle(Finished(claims[0]), failed(claims[1]), Finished(claims[2])).promoted == 3
    assert store.status(*waiting) == ["ready"] * 3 + ["blocked"] * 2
