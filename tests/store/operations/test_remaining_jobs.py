"""Whether queues have anything left to do: by where a job stands, and by the name of its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.operations.queues import find_unserved_queues, has_remaining_jobs
from tests.support.store.jobs import failed, job, later, limited

if TYPE_CHECKING:
    from tests.support.store.stores import Store


def left(store: Store, *patterns: str, within: float = 5.0, is_dispatched: bool = True) -> bool:
    return store.run(has_remaining_jobs(store.sql, patterns or ["*"], within=within, is_dispatched=is_dispatched))


def pause(store: Store, queue: str) -> None:
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


def test_a_scheduled_job_that_nobody_moves_counts_for_a_while_only(store: Store) -> None:
    store.enqueue(job(scheduled_at=later(seconds=60)))
    assert left(store, within=120, is_dispatched=False)
    store.ask(f"UPDATE steady_queue_scheduledexecution SET scheduled_at = {store.sql.ago(60)}")
    assert left(store, within=120, is_dispatched=False)
    assert not left(store, within=5, is_dispatched=False)
    assert left(store, within=5)


def test_a_paused_queue_has_nothing_left_but_what_runs(store: Store) -> None:
    (claim,) = store.claimed(job())
    store.enqueue(job(), limited(), limited())
    pause(store, "default")
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
def test_a_ready_job_of_a_lane_that_no_worker_has_does_not_count_and_is_told_of(store: Store, lane: int) -> None:
    store.enqueue(job(lane=lane), job(lane=lane, queue_name="mail"))
    assert not left(store)
    assert store.run(find_unserved_queues(store.sql, ["*"])) == [("default", lane), ("mail", lane)]
    assert store.run(find_unserved_queues(store.sql, ["ma*"])) == [("mail", lane)]
    store.enqueue(job())
    assert left(store)
    assert store.run(find_unserved_queues(store.sql, ["default"])) == [("default", lane)]
