"""The order in which a worker queries its queues."""

from __future__ import annotations

from steady_queue.aio.worker.queues import MAX_QUEUES, InListedOrder, RoundRobin
from steady_queue.store.queue_selection import QueueSelection

LANE, OTHER = 0, 1


def names(count: int) -> list[str]:
    return [f"queue {n:05d}" for n in range(count)]


def test_every_queue_has_its_turn_to_be_the_first() -> None:
    line = RoundRobin()
    line.set_names({LANE: ["a", "b", "c"]})
    served = []
    for _ in range(7):
        first = line.next(LANE)[0]
        served.append(first)
        assert line.record(LANE, line.next(LANE), {first}, is_filled=True) is False
    assert served == ["a", "b", "c", "a", "b", "c", "a"]


def test_the_turn_goes_on_after_the_last_queue_that_had_a_job() -> None:
    line = RoundRobin()
    line.set_names({LANE: ["a", "b", "c", "d"]})
    line.record(LANE, line.next(LANE), {"a", "b"}, is_filled=True)
    assert line.next(LANE) == ["c", "d", "a", "b"]


def test_the_turn_goes_on_when_names_are_read_again() -> None:
    line = RoundRobin()
    line.set_names({LANE: ["a", "b", "c"]})
    line.record(LANE, line.next(LANE), {"a", "b"}, is_filled=True)
    line.set_names({LANE: ["a", "aa", "b", "bb", "d"]})
    assert line.next(LANE) == ["bb", "d", "a", "aa", "b"]


def test_of_many_queues_a_bounded_number_is_queried_and_none_starves() -> None:
    line, every = RoundRobin(), names(1000)
    line.set_names({LANE: every})
    first = []
    for _ in range(1000):
        asked = line.next(LANE)
        assert len(asked) == MAX_QUEUES
        first.append(asked[0])
        line.record(LANE, asked, {asked[0]}, is_filled=True)
        if len(first) % 100 == 0:
            line.set_names({LANE: every})
    assert first == every


def test_queues_that_had_too_few_jobs_are_not_queried_again_before_the_others() -> None:
    line, every = RoundRobin(), names(3 * MAX_QUEUES + 1)
    line.set_names({LANE: every})
    asked: list[str] = []
    while line.record(LANE, piece := line.next(LANE), (), is_filled=False):
        asked += piece
    assert asked + piece == every
    # The last queues stay in the query: they cost nothing, and jobs may arrive.
    assert line.next(LANE) == piece


def test_a_few_queues_are_queried_for_every_lane_and_many_for_the_lanes_of_their_jobs() -> None:
    line = RoundRobin()
    line.set_names({LANE: ["a"], OTHER: ["b"]})
    assert (line.next(LANE), line.next(OTHER)) == (["a", "b"], ["a", "b"])
    line.set_names({LANE: names(MAX_QUEUES + 1), OTHER: ["b"]})
    assert line.next(OTHER) == ["b"]


def test_without_names_no_queue_is_queried() -> None:
    line = RoundRobin()
    assert line.next(LANE) == []
    assert line.record(LANE, [], (), is_filled=False) is False


def test_in_listed_order_the_first_queues_are_always_queried_first() -> None:
    line = InListedOrder(QueueSelection(["mail", "queue *", "last"]).expand, max_names=MAX_QUEUES)
    assert line.next(LANE) == ["mail", "last"]
    line.set_names({LANE: names(MAX_QUEUES)})
    first = line.next(LANE)
    assert first == ["mail", *names(MAX_QUEUES - 1)]
    assert line.record(LANE, first, (), is_filled=False) is True
    assert line.next(LANE) == [*names(MAX_QUEUES)[-1:], "last"]
    assert line.record(LANE, line.next(LANE), (), is_filled=False) is False
    assert line.next(LANE) == first
    assert line.record(LANE, first, {"mail"}, is_filled=True) is False
    assert line.next(LANE) == first


def test_listed_names_are_queried_in_one_statement() -> None:
    every = names(10 * MAX_QUEUES)
    line = InListedOrder(QueueSelection(every).expand, max_names=None)
    assert line.next(LANE) == every
    assert line.record(LANE, every, (), is_filled=False) is False
