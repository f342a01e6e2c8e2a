"""Queues: paused, resumed, listed, and whether they have remaining jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.job import Lane
from steady_queue.store.operations.actions.queues import (
    count_waiting,
    find_queue_names,
    find_unserved_queues,
    find_waiting_queues,
    has_remaining_jobs,
    pause,
)
from steady_queue.store.queue_selection import QueueSelection
from tests.support.store.jobs import failed, job, later, limited

if TYPE_CHECKING:
    from tests.support.store.stores import Store


def test_an_empty_database_has_no_queues(store: Store) -> None:
    assert store.run(find_queue_names(store.sql)) == []


def test_every_queue_with_ready_jobs_is_named_once_in_the_order_of_its_bytes(store: Store) -> None:
    names = ["b", "a", "B", "b", "é", "a_1", "", "a"]
    store.enqueue(*(job(queue_name=name) for name in names))
    assert store.run(find_queue_names(store.sql)) == sorted(set(names), key=str.encode)


def test_queues_whose_jobs_are_not_ready_are_not_named(store: Store) -> None:
    store.enqueue(job(queue_name="scheduled", scheduled_at=later()))
    store.enqueue(limited(queue_name="holds"), limited(queue_name="blocked"))
    assert store.run(find_queue_names(store.sql)) == ["holds"]
    store.claim(store.worker())
    assert store.run(find_queue_names(store.sql)) == []


# -- where jobs wait that may be claimed ------------------------------------------------------------------------------

STRANGE = ["x%' OR 1=1--", "_", "%", "\\", "\\'", "🐎", "🐢", "a*b", "A", "a", "é", "e\u0301", " a", "a ", "?", "$1"]


def test_in_an_empty_database_no_jobs_wait_and_nothing_is_paused(store: Store) -> None:
    found = store.run(find_waiting_queues(store.sql))
    assert found.names == {lane: [] for lane in Lane}
    assert not found.is_paused


def test_jobs_wait_in_queues_that_are_not_paused_each_named_once_for_a_lane(store: Store) -> None:
    store.enqueue(*(job(queue_name=name, priority=n % 3) for n in range(4) for name in ("b", "a", "resting")))
    store.enqueue(job(queue_name="b", lane=Lane.THREAD), job(queue_name="c", lane=Lane.THREAD))
    store.enqueue(job(queue_name="later", scheduled_at=later()))
    assert not store.run(find_waiting_queues(store.sql)).is_paused
    store.run(pause(store.sql, "resting"))
    assert store.run(find_waiting_queues(store.sql)) == (
        {Lane.ASYNC: ["a", "b"], Lane.THREAD: ["b", "c"], Lane.PROCESS: []},
        True,
    )


@pytest.mark.parametrize("lane", [7, -3])
def test_jobs_of_a_lane_that_is_unknown_hide_no_others(store: Store, lane: int) -> None:
    store.enqueue(job(lane=lane), job(lane=lane, queue_name="other"), job(), job(queue_name="mail"))
    assert store.run(find_waiting_queues(store.sql)).names[Lane.ASYNC] == ["default", "mail"]


def test_a_pause_is_reported_even_if_no_jobs_wait(store: Store) -> None:
    store.run(pause(store.sql, "nowhere"))
    assert store.run(find_waiting_queues(store.sql)) == ({lane: [] for lane in Lane}, True)


def test_any_name_is_returned_unchanged_in_the_order_of_bytes(store: Store) -> None:
    store.enqueue(*(job(queue_name=name) for name in STRANGE))
    found = store.run(find_waiting_queues(store.sql)).names[Lane.ASYNC]
    assert found == sorted(STRANGE, key=str.encode)


@pytest.mark.parametrize("resting", STRANGE)
def test_a_pause_hides_the_queue_of_that_very_name_alone(store: Store, resting: str) -> None:
    store.enqueue(*(job(queue_name=name) for name in STRANGE))
    store.run(pause(store.sql, resting))
    assert set(STRANGE) - set(store.run(find_waiting_queues(store.sql)).names[Lane.ASYNC]) == {resting}


def test_queues_with_more_jobs_than_one_step_reads_hide_no_other(store: Store) -> None:
    store.enqueue(*(job(queue_name="big", lane=Lane(n % 2)) for n in range(1000)))
    store.enqueue(*(job(queue_name=f"small {n:03d}") for n in range(450)), job(queue_name="after"))
    store.enqueue(job(queue_name="big", lane=Lane.PROCESS))
    names = store.run(find_waiting_queues(store.sql)).names
    assert names[Lane.ASYNC] == ["after", "big", *(f"small {n:03d}" for n in range(450))]
    assert (names[Lane.THREAD], names[Lane.PROCESS]) == (["big"], ["big"])
    assert store.run(find_queue_names(store.sql)) == names[Lane.ASYNC]


def left(store: Store, *patterns: str, within: float = 5.0, is_dispatched: bool = True) -> bool:
    return store.run(
        has_remaining_jobs(store.sql, [QueueSelection(patterns or ["*"])], within=within, is_dispatched=is_dispatched)
    )


def insert_pause(store: Store, queue: str) -> None:
    store.ask(f"INSERT INTO steady_queue_pause (queue_name, created_at) VALUES (?, {store.sql.now})", queue)


def test_an_empty_database_has_nothing_left(store: Store) -> None:
    assert not left(store)
    assert not left(store, "default", "mail*")


def test_a_job_counts_until_it_has_ended(store: Store) -> None:
    (first, second) = store.claimed(job(), job())
    assert left(store)
    store.settle(failed(first))
    assert left(store, "default")
    assert not left(store, "mail")
    store.settle(failed(second))
    assert not left(store)


def test_a_ready_job_and_one_that_is_blocked_count_each_in_its_own_queue(store: Store) -> None:
    store.enqueue(limited(queue_name="holds"), limited(queue_name="blocked"))
    assert left(store, "holds")
    assert left(store, "blocked")
    assert not left(store, "other")


def test_a_scheduled_job_counts_when_it_is_due_soon(store: Store) -> None:
    store.enqueue(job(scheduled_at=later(seconds=60)))
    assert not left(store, within=5)
    assert left(store, within=120)
    assert not left(store, "other", within=120)


def test_a_scheduled_job_without_a_dispatcher_counts_for_a_limited_time_only(store: Store) -> None:
    store.enqueue(job(scheduled_at=later(seconds=60)))
    assert left(store, within=120, is_dispatched=False)
    store.ask(f"UPDATE steady_queue_scheduledexecution SET scheduled_at = {store.sql.ago(60)}")
    assert left(store, within=120, is_dispatched=False)
    assert not left(store, within=5, is_dispatched=False)
    assert left(store, within=5)


def test_a_paused_queue_has_nothing_left_but_what_runs(store: Store) -> None:
    (claim,) = store.claimed(job())
    store.enqueue(job(), limited(), limited())
    insert_pause(store, "default")
    assert left(store)
    store.settle(failed(claim))
    assert not left(store)
    store.enqueue(job(queue_name="other"))
    assert left(store)
    assert not left(store, "default")


@pytest.mark.parametrize(
    ("queue", "fits", "fits_not"),
    [
        ("mail", ["mail", "mail*", "m*", "*"], ["Mail", "mai", "mails", "M*", "mails*", "ma*l", "*mail", "**x"]),
        ("a_b", ["a_b", "a_*"], ["a%", "a%b", "a__*", "_*", "a?b", "a%*"]),
        ("axb", ["ax*"], ["a_b", "a_*", "a%b", "%*", "_x*"]),
        ("100%", ["100%", "100%*", "100*"], ["100_", "100%%*"]),
        ("📦 pack", ["📦 pack", "📦*", "📦 p*"], ["📦", "📫*", "📦  *"]),
        ("é", ["é", "é*"], ["e", "e*", "É", "e\u0301*"]),
        ("a", ["a", "a*"], ["a ", "a *", " a"]),
        ("back\\slash'", ["back\\slash'", "back\\*"], ["back\\\\*", "back*slash'"]),
    ],
)
def test_a_queue_fits_its_own_name_and_its_prefixes_and_nothing_else(
    store: Store, queue: str, fits: list[str], fits_not: list[str]
) -> None:
    store.enqueue(job(queue_name=queue))
    assert [pattern for pattern in fits if not left(store, pattern)] == []
    assert [pattern for pattern in fits_not if left(store, pattern)] == []
    assert not left(store, *fits_not)
    assert left(store, fits_not[0], fits[0])


@pytest.mark.parametrize("lane", [2, 7, -3])
def test_a_ready_job_of_a_lane_that_no_worker_has_does_not_count_and_is_reported(store: Store, lane: int) -> None:
    store.enqueue(job(lane=lane), job(lane=lane, queue_name="mail"))
    assert not left(store)
    assert store.run(find_unserved_queues(store.sql, [QueueSelection(["*"])])) == [("default", lane), ("mail", lane)]
    assert store.run(find_unserved_queues(store.sql, [QueueSelection(["ma*"])])) == [("mail", lane)]
    store.enqueue(job())
    assert left(store)
    assert store.run(find_unserved_queues(store.sql, [QueueSelection(["default"])])) == [("default", lane)]


EXCLUDING = [
    ([QueueSelection(["*"], ["mail"])], {"default", "mailing"}),
    ([QueueSelection(["*"], ["mail*"])], {"default"}),
    ([QueueSelection(["mail*", "default"], ["mail"])], {"default", "mailing"}),
    ([QueueSelection(["*"], ["mail*", "default"])], set()),
    ([QueueSelection(["*"], ["mail*"]), QueueSelection(["mail"])], {"default", "mail"}),
    ([QueueSelection(["*"], ["mail*"]), QueueSelection(["*"], ["default"])], {"default", "mail", "mailing"}),
    ([QueueSelection(["*"], ["default"]), QueueSelection(["*"])], {"default", "mail", "mailing"}),
    ([QueueSelection(["mail", "default"], ["ma*l"])], {"default", "mail"}),
    ([], set()),
]


@pytest.mark.parametrize(("selections", "served"), EXCLUDING, ids=range(len(EXCLUDING)))
def test_excluded_queues_have_nothing_left_and_nothing_waits_in_them(
    store: Store, selections: list[QueueSelection], served: set[str]
) -> None:
    for queue in ("default", "mail", "mailing"):
        (one,) = store.claimed(job(queue_name=queue))
        assert store.run(has_remaining_jobs(store.sql, selections, within=5)) == (queue in served)
        store.settle(failed(one))
    store.enqueue(*(job(queue_name=queue) for queue in ("default", "mail", "mailing")))
    assert store.run(count_waiting(store.sql, selections, at_most=10)) == len(served)


def test_waiting_jobs_are_counted_up_to_a_limit(store: Store) -> None:
    assert store.run(count_waiting(store.sql, [QueueSelection(["*"])], at_most=4)) == 0
    store.enqueue(*(job(queue_name=name) for name in ("a", "a", "a", "b", "b", "b")))
    assert store.run(count_waiting(store.sql, [QueueSelection(["*"])], at_most=4)) == 4
    assert store.run(count_waiting(store.sql, [QueueSelection(["*"])], at_most=100)) == 6
    assert store.run(count_waiting(store.sql, [QueueSelection(["a"])], at_most=4)) == 3
    assert store.run(count_waiting(store.sql, [QueueSelection(["a"])], at_most=2)) == 2
    assert store.run(count_waiting(store.sql, [QueueSelection(["c"])], at_most=2)) == 0
