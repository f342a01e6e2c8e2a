"""Promote: blocked jobs become ready while their concurrency key has free slots."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from steady_queue.store.job import Lane, Status
from steady_queue.store.names import LOCK_ID_COUNT
from steady_queue.store.operations import promote as promotions
from steady_queue.store.operations.actions import discard
from steady_queue.store.operations.promote import Grant, allocate_slots, lock_id
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import PATH, failed, job, later, limited
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Flow, Operation
    from tests.support.store.stores import Store


def slots(store: Store, key: str = "key") -> list[int]:
    rows = query(store.alias, "SELECT slot FROM steady_queue_semaphore WHERE concurrency_key = %s ORDER BY slot", key)
    return [slot for (slot,) in rows]


def holders(store: Store, *jobs: NewJob) -> list[NewJob]:
    """Those of the jobs that are ready."""
    return [new for new, record in zip(jobs, store.find(*jobs), strict=True) if record.status is Status.READY]


def blocked(store: Store, *jobs: NewJob) -> None:
    """Store the jobs as somebody else's transaction would: nobody has looked for free slots yet."""
    store.enqueue(*jobs, promoting=False)
    assert counts(store.alias).get("blocked") == len(jobs)


# -- who gets which slot ----------------------------------------------------------------------------------------------

ONE, TWO, THREE, FOUR = (UUID(int=n) for n in range(1, 5))


def test_candidates_get_slots_in_their_order_while_there_are_any() -> None:
    candidates = [("k", ONE, 2, "p"), ("k", TWO, 2, "p"), ("k", THREE, 2, "p")]
    assert allocate_slots({"k": set()}, candidates, {}) == [Grant(ONE, "k", 1), Grant(TWO, "k", 2)]


def test_a_full_key_grants_nothing() -> None:
    assert allocate_slots({"k": {1, 2}}, [("k", ONE, 2, "p")], {}) == []


def test_a_key_that_is_over_its_limit_grants_nothing() -> None:
    assert allocate_slots({"k": {1, 2, 3}}, [("k", ONE, 2, "p")], {}) == []


def test_rows_are_counted_whatever_their_numbers() -> None:
    assert allocate_slots({"k": {7, 9}}, [("k", ONE, 2, "p")], {}) == []


def test_the_lowest_free_numbers_are_given() -> None:
    candidates = [("k", ONE, 5, "p"), ("k", TWO, 5, "p"), ("k", THREE, 5, "p")]
    assert [grant.slot for grant in allocate_slots({"k": {2, 4}}, candidates, {})] == [1, 3, 5]


def test_the_first_refusal_ends_the_turn_of_its_key() -> None:
    # The next candidate's own limit would let it in; it may not overtake the one that was refused.
    candidates = [("k", ONE, 1, "strict"), ("k", TWO, 9, "lax")]
    assert allocate_slots({"k": {1}}, candidates, {}) == []


def test_a_refusal_does_not_end_the_turn_of_another_key() -> None:
    candidates = [("a", ONE, 1, "p"), ("b", TWO, 1, "p"), ("a", THREE, 1, "p"), ("b", FOUR, 1, "p")]
    assert allocate_slots({"a": {1}, "b": set()}, candidates, {}) == [Grant(TWO, "b", 1)]


def test_the_limit_in_force_wins_over_the_stored_one() -> None:
    candidates = [("k", ONE, 1, "p"), ("k", TWO, 1, "p")]
    assert len(allocate_slots({"k": set()}, candidates, {"p": 2})) == 2
    assert allocate_slots({"k": {1}}, [("k", ONE, 5, "p")], {"p": 1}) == []


def test_the_stored_limit_serves_for_tasks_that_the_code_does_not_know() -> None:
    candidates = [("k", ONE, 2, "gone"), ("k", TWO, 2, "gone")]
    assert len(allocate_slots({"k": set()}, candidates, {"p": 1})) == 2


def test_a_job_without_a_limit_counts_as_one_at_a_time() -> None:
    candidates = [("k", ONE, None, "p"), ("k", TWO, None, "p")]
    assert len(allocate_slots({"k": set()}, candidates, {})) == 1


def test_the_slots_taken_are_left_as_they_were() -> None:
    taken = {"k": {1}}
    allocate_slots(taken, [("k", ONE, 2, "p")], {})
    assert taken == {"k": {1}}


# -- lock ids ---------------------------------------------------------------------------------------------------------


KNOWN = [("", 0), ("123456789", 0xCBF43926 % LOCK_ID_COUNT), ("key", 0x8A90ABA9 % LOCK_ID_COUNT)]


@pytest.mark.parametrize(("key", "expected"), KNOWN)
def test_a_key_has_the_same_lock_id_in_every_version(key: str, expected: int) -> None:
    # Two versions that work side by side must agree.
    assert lock_id(key) == expected


def test_lock_ids_are_spread_over_their_whole_range() -> None:
    ids = {lock_id(f"tests.shop.tasks.pay/{number}") for number in range(20_000)}
    assert ids == set(range(LOCK_ID_COUNT))


@pytest.mark.parametrize("key", ["\ud800", "\x00", "😀", "x" * 10_000])
def test_every_text_has_a_lock_id(key: str) -> None:
    assert 0 <= lock_id(key) < LOCK_ID_COUNT


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
    blocked(store, *jobs)
    assert store.promote({"key": 2}) == [new.id for new in jobs[:2]]
    assert store.promote({"key": 2}) == []


def test_promotion_goes_by_priority_then_age(store: Store) -> None:
    low, high, older, newer = (limited(priority=priority) for priority in (-5, 7, 3, 3))
    blocked(store, low, high, older, newer)
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
    blocked(store, *jobs)
    promoted = store.promote({"key": 25})
    assert promoted == [new.id for new in sorted(jobs, key=lambda new: -new.priority)[:25]]


@pytest.mark.only_on("postgres")
@pytest.mark.parametrize("ways", [("nestloop",), ("nestloop", "hashjoin"), ("hashjoin", "mergejoin"), ("indexscan",)])
def test_order_holds_whatever_plan_the_server_chooses(database: str, ways: tuple[str, ...]) -> None:
    # Django's connection, or a pooler's, plans as it likes: the order must be part of the statements.
    store = SyncStore(database)
    jobs = [limited(to=25, priority=priority) for priority in range(50)]
    random.Random(7).shuffle(jobs)
    blocked(store, *jobs)
    query(database, "ANALYZE")
    for way in ways:
        query(database, f"SET enable_{way} = off")
    first = [new.id for new in sorted(jobs, key=lambda new: -new.priority)[:25]]
    assert store.promote({"key": 25}) == first
    assert [claim.job_id for claim in store.claim(store.worker(), 25)] == first


def test_promotion_of_many_keys_serves_each_in_its_own_order(store: Store) -> None:
    jobs = [limited(f"k{n % 10}", 2, priority=n // 10) for n in range(60)]
    random.Random(7).shuffle(jobs)
    blocked(store, *jobs)
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


def test_a_slot_given_back_in_the_middle_is_given_again(store: Store) -> None:
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


def test_the_last_job_of_a_key_leaves_no_slot_behind(store: Store) -> None:
    (claim,) = store.claimed(limited())
    assert store.settle(Finished(claim)).promoted == 0
    assert slots(store) == []


def test_several_holders_that_end_together_make_as_many_ready(store: Store) -> None:
    holders_, waiting = [limited(to=3) for _ in range(3)], [limited(to=3) for _ in range(5)]
    claims = store.claimed(*holders_)
    store.enqueue(*waiting)
    assert store.settle(Finished(claims[0]), failed(claims[1]), Finished(claims[2])).promoted == 3
    assert store.status(*waiting) == ["ready"] * 3 + ["blocked"] * 2


# -- limits that change -----------------------------------------------------------------------------------------------


def test_a_limit_that_was_lowered_holds_from_then_on(store: Store) -> None:
    jobs = [limited(to=3) for _ in range(4)]
    claims = store.claimed(*jobs[:3])
    store.enqueue(jobs[3], limits={PATH: 1})
    assert store.status(jobs[3]) == ["blocked"]
    store.settle(*map(Finished, claims[:2]), limits={PATH: 1})
    assert store.status(jobs[3]) == ["blocked"]
    store.settle(Finished(claims[2]), limits={PATH: 1})
    assert store.status(jobs[3]) == ["ready"]


def test_a_limit_that_was_raised_is_used_at_once(store: Store) -> None:
    jobs = [limited(to=1) for _ in range(6)]
    store.enqueue(*jobs[:5])
    store.enqueue(jobs[5], limits={PATH: 4})
    assert store.status(*jobs) == ["ready"] * 4 + ["blocked"] * 2
    store.discard(*jobs)  # the invariants know only the stored limits


def test_a_limit_that_was_raised_is_used_up_when_a_job_ends(store: Store) -> None:
    holder, *waiting = [limited(to=1) for _ in range(7)]
    (claim,) = store.claimed(holder)
    store.enqueue(*waiting)
    store.settle(Finished(claim), limits={PATH: 4})
    assert store.status(*waiting) == ["ready"] * 4 + ["blocked"] * 2
    store.discard(*waiting)


def test_a_limit_that_was_raised_is_used_up_after_a_retry_and_a_discard(store: Store) -> None:
    first, second, *waiting = [limited(to=1) for _ in range(7)]
    (claim,) = store.claimed(first)
    store.enqueue(second, *waiting)
    store.settle(failed(claim))
    store.retry(first, limits={PATH: 3})
    assert store.status(first, second, *waiting) == ["ready"] * 3 + ["blocked"] * 4
    store.discard(first, limits={PATH: 5})
    assert store.status(second, *waiting) == ["ready"] * 5 + ["blocked"]
    store.discard(second, *waiting)


def test_the_stored_limit_is_used_for_tasks_that_are_not_in_the_code(store: Store) -> None:
    jobs = [limited(to=2, task_path="gone.from.the.code") for _ in range(3)]
    store.enqueue(*jobs, limits={PATH: 1})
    assert store.status(*jobs) == ["ready", "ready", "blocked"]


def test_the_largest_limit_there_is_can_be_used(store: Store) -> None:
    first, second, third = (limited(to=2**31 - 1) for _ in range(3))
    store.enqueue(first, second)
    (claim, _) = store.claim(store.worker(), 2)
    store.enqueue(third, promoting=False)
    assert store.settle(Finished(claim)).promoted == 1
    assert store.status(third) == ["ready"]


def test_more_than_a_statement_takes_are_promoted_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotions, "JOBS_PER_STATEMENT", 3)
    jobs = [limited(to=2**31 - 1) for _ in range(8)]
    blocked(store, *jobs)
    assert store.promote({"key": 2**31 - 1}) == [one.id for one in jobs]


def test_a_limit_that_was_lowered_lets_no_more_be_read_than_it_grants(store: Store) -> None:
    in_force = {PATH: 1}
    jobs = [limited(to=200) for _ in range(300)]
    store.enqueue(*jobs, limits=in_force)
    (claim,) = store.claim(store.worker())
    read: list[int] = []
    operations: list[Operation[Any]] = [
        settle(store.sql, [Finished(claim)], worker_id="worker", limits=in_force),
        discard(store.sql, [jobs[1].id], limits=in_force),
    ]
    for operation in operations:
        store.run(replace(operation, flow=partial(counted, operation.flow, read)))
    assert counts(store.alias) == {"ready": 1, "blocked": 297}
    assert max(read) <= 2


def counted(flow: Callable[[], Flow[Any]], read: list[int]) -> Flow[Any]:
    """The flow; how many rows each of its statements brings is noted."""
    steps = flow()
    try:
        statement = next(steps)
        while True:
            rows = yield statement
            read.append(len(rows))
            statement = steps.send(rows)
    except StopIteration as done:
        return done.value


def test_a_refused_job_is_not_overtaken_by_one_with_a_larger_limit(store: Store) -> None:
    # Two tasks of one group: the strict one came first and waits for an empty key.
    holder, strict, lax = limited(to=2), limited(to=1, task_path="strict"), limited(to=2, priority=-1)
    store.enqueue(holder, strict, lax)
    assert store.status(holder, strict, lax) == ["ready", "blocked", "blocked"]
    store.discard(holder)
    assert store.status(strict, lax) == ["ready", "ready"]


def test_tasks_of_one_group_fill_the_larger_limit_whoever_was_enqueued_last(store: Store) -> None:
    lax = [limited(to=4, task_path="lax", priority=1) for _ in range(4)]
    strict = limited(to=1, task_path="strict")
    store.enqueue(*lax, strict)
    assert store.status(*lax, strict) == ["ready"] * 4 + ["blocked"]


def test_a_job_without_a_key_is_never_blocked(store: Store) -> None:
    jobs = [job() for _ in range(3)]
    store.enqueue(limited(), *jobs)
    assert store.status(*jobs) == ["ready"] * 3
