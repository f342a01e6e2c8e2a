"""Claim: the order of jobs, queues and lanes, and paused queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.job import Lane
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from tests.support.databases.tables import counts, query
from tests.support.store.jobs import job
from tests.support.store.rows import ids_of_claims, ids_of_jobs, pause

if TYPE_CHECKING:
    from tests.support.store.stores import Store


# -- which ------------------------------------------------------------------------------------------------------------


def test_larger_priority_comes_first_then_the_older_job(store: Store) -> None:
    jobs = [job(priority=priority) for priority in (0, 5, -5, 5, 0, 100, -100)]
    store.enqueue(*jobs)
    expected = ids_of_jobs(sorted(jobs, key=lambda new: (-new.priority, new.id)))
    assert ids_of_claims(store.claim(store.worker(), 10)) == expected


def test_order_holds_between_claims(store: Store) -> None:
    jobs = [job(priority=priority) for priority in (0, 5, -5, 5, 0, 100, -100)]
    for new in jobs:
        store.enqueue(new)
    worker = store.worker()
    taken = [got for _ in range(4) for got in store.claim(worker, 2)]
    assert ids_of_claims(taken) == ids_of_jobs(sorted(jobs, key=lambda new: (-new.priority, new.id)))


def test_priority_decides_between_queues_when_all_are_asked_for(store: Store) -> None:
    low, high = job(queue_name="a", priority=1), job(queue_name="b", priority=2)
    store.enqueue(low, high)
    assert ids_of_claims(store.claim(store.worker(), 10)) == [high.id, low.id]


def test_the_order_of_queues_comes_before_priority(store: Store) -> None:
    first, second, third = job(queue_name="z", priority=-9), job(queue_name="a", priority=9), job(queue_name="a")
    store.enqueue(first, second, third)
    assert ids_of_claims(store.claim(store.worker(), 10, queues=["z", "a"])) == ids_of_jobs([first, second, third])


def test_a_later_queue_fills_what_earlier_ones_left(store: Store) -> None:
    first, second = [job(queue_name="a") for _ in range(2)], [job(queue_name="b") for _ in range(3)]
    store.enqueue(*second, *first)
    worker = store.worker()
    assert ids_of_claims(store.claim(worker, 3, queues=["a", "b"])) == ids_of_jobs([*first, second[0]])
    assert ids_of_claims(store.claim(worker, 3, queues=["a", "b"])) == ids_of_jobs(second[1:])


def test_only_the_queues_asked_for_are_claimed_from(store: Store) -> None:
    wanted = job(queue_name="mail")
    store.enqueue(job(queue_name="mails"), wanted, job(queue_name="Mail"), job(queue_name="mail "))
    assert ids_of_claims(store.claim(store.worker(), 10, queues=["mail", "nowhere"])) == [wanted.id]


def test_a_claim_from_no_queues_returns_nothing(store: Store) -> None:
    store.enqueue(job())
    assert store.claim(store.worker(), 10, queues=[]) == []


def test_a_queue_named_twice_is_claimed_from_once(store: Store) -> None:
    jobs = [job(queue_name="a") for _ in range(3)]
    store.enqueue(*jobs)
    assert ids_of_claims(store.claim(store.worker(), 10, queues=["a", "a"])) == ids_of_jobs(jobs)


@pytest.mark.parametrize("queues", [None, ["default"]])
def test_each_lane_is_claimed_from_by_itself(store: Store, queues: list[str] | None) -> None:
    jobs = {lane: [job(lane=lane, priority=n) for n in range(2)] for lane in Lane}
    store.enqueue(*(new for its in jobs.values() for new in its))
    worker = store.worker()
    for lane in Lane:
        got = store.claim(worker, 10, lane=lane, queues=queues)
        assert ids_of_claims(got) == ids_of_jobs(reversed(jobs[lane]))
        assert {one.lane for one in got} == {lane}


@pytest.mark.parametrize("queues", [None, ["default", "mail"]])
def test_one_claim_for_several_lanes_keeps_the_limit_of_each(store: Store, queues: list[str] | None) -> None:
    jobs = {lane: [job(lane=lane) for _ in range(3)] for lane in Lane}
    store.enqueue(*(new for its in jobs.values() for new in its))
    worker = store.worker()
    rooms = {Lane.THREAD: 2, Lane.ASYNC: 1, Lane.PROCESS: 0}
    wanted = [ClaimRequest(worker, lane, room, queues or ()) for lane, room in rooms.items()]
    got = store.run(claim(store.sql, *wanted)) if queues else store.run(claim_from_all(store.sql, *wanted)).claims
    assert sorted(ids_of_claims(got)) == sorted(ids_of_jobs([*jobs[Lane.THREAD][:2], *jobs[Lane.ASYNC][:1]]))
    assert counts(store.alias) == {"ready": 6, "claimed": 3}


# -- pauses -----------------------------------------------------------------------------------------------------------


def test_a_paused_queue_is_left_out_when_all_are_asked_for(store: Store) -> None:
    resting, working = job(queue_name="resting", priority=9), job(queue_name="working")
    store.enqueue(resting, working)
    pause(store, "resting")
    assert ids_of_claims(store.claim(store.worker(), 10)) == [working.id]
    assert store.status(resting) == ["ready"]


def test_a_paused_queue_is_left_out_when_it_is_asked_for_by_name(store: Store) -> None:
    resting, working = job(queue_name="resting"), job(queue_name="working")
    store.enqueue(resting, working)
    pause(store, "resting")
    worker = store.worker()
    assert store.claim(worker, 10, queues=["resting"]) == []
    assert ids_of_claims(store.claim(worker, 10, queues=["resting", "working"])) == [working.id]


def test_nothing_is_claimed_while_every_queue_is_paused(store: Store) -> None:
    store.enqueue(job(queue_name="a"), job(queue_name="b"))
    pause(store, "a", "b", "c")
    assert store.claim(store.worker(), 10) == []


def test_a_queue_is_claimed_from_again_when_it_is_resumed(store: Store) -> None:
    new = job()
    store.enqueue(new)
    pause(store, "default")
    worker = store.worker()
    assert store.claim(worker) == []
    query(store.alias, "DELETE FROM steady_queue_pause")
    assert ids_of_claims(store.claim(worker)) == [new.id]


def test_many_paused_jobs_do_not_hide_the_others(store: Store) -> None:
    working = job(queue_name="working", priority=-1)
    store.enqueue(*[job(queue_name="resting", priority=5) for _ in range(50)], working)
    pause(store, "resting")
    assert ids_of_claims(store.claim(store.worker(), 1)) == [working.id]


def test_a_pause_compares_names_byte_by_byte(store: Store) -> None:
    new = job(queue_name="mail")
    store.enqueue(new)
    pause(store, "Mail", "mail ", "maïl")
    assert ids_of_claims(store.claim(store.worker())) == [new.id]


def test_a_claim_from_all_queues_returns_nothing_while_any_is_paused_and_reports_the_pause(store: Store) -> None:
    new = job(queue_name="working")
    store.enqueue(new)
    worker = store.worker()
    wanted = [ClaimRequest(worker, lane, 5) for lane in Lane]
    pause(store, "nowhere")
    assert store.run(claim_from_all(store.sql, *wanted)) == ([], True)
    query(store.alias, "DELETE FROM steady_queue_pause")
    taken = store.run(claim_from_all(store.sql, *wanted))
    assert (ids_of_claims(taken.claims), taken.is_paused) == ([new.id], False)


def test_each_lane_may_name_queues_of_its_own(store: Store) -> None:
    jobs = {(lane, name): job(lane=lane, queue_name=name) for lane in (Lane.ASYNC, Lane.THREAD) for name in "abc"}
    store.enqueue(*jobs.values())
    pause(store, "c")
    worker = store.worker()
    wanted = [ClaimRequest(worker, Lane.ASYNC, 9, ["c", "b"]), ClaimRequest(worker, Lane.THREAD, 1, ["b", "a"])]
    claims = store.run(claim(store.sql, *wanted))
    assert ids_of_claims(claims) == ids_of_jobs([jobs[Lane.ASYNC, "b"], jobs[Lane.THREAD, "b"]])


STRANGE = ["x%' OR 1=1--", "_", "%", "\\", "🐎", "a*b", "A", "a ", "?", "$1", "%s", ""]


@pytest.mark.parametrize("name", STRANGE)
def test_any_name_of_a_queue_means_itself_alone(store: Store, name: str) -> None:
    jobs = {its: job(queue_name=its) for its in [*STRANGE, "a", "🐢", "x"]}
    store.enqueue(*jobs.values())
    worker = store.worker()
    assert ids_of_claims(store.claim(worker, 99, queues=[name])) == [jobs[name].id]
    pause(store, "🐢")
    assert {got.queue_name for got in store.claim(worker, 99)} == {*STRANGE, "a", "x"} - {name}
