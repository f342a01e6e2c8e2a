"""Enqueue: a job row and its first execution row, together or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from steady_queue.store.job import Lane, NewJob
from steady_queue.store.operations.enqueue import Enqueued, admit, enqueue
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import discarding, job, later, limited
from tests.support.store.rows import all_jobs, stored_ids

if TYPE_CHECKING:
    from steady_queue.store.statement import Flow, Operation, T
    from tests.support.store.stores import Store


# -- one job ----------------------------------------------------------------------------------------------------------


def test_an_immediate_job_is_ready_with_its_queue_priority_and_lane(store: Store) -> None:
    new = job(queue_name="mail", priority=-7, lane=Lane.PROCESS)
    assert store.enqueue(new) == Enqueued()
    assert row(store.alias, "ReadyExecution", new.id) == {
        "job_id": new.id,
        "queue_name": "mail",
        "lane": Lane.PROCESS,
        "priority": -7,
    }
    assert counts(store.alias) == {"ready": 1}


def test_a_future_job_is_scheduled_with_its_time_and_priority(store: Store) -> None:
    new = job(scheduled_at=later(hours=2), priority=9)
    store.enqueue(new)
    assert row(store.alias, "ScheduledExecution", new.id) == {
        "job_id": new.id,
        "scheduled_at": new.scheduled_at,
        "priority": 9,
    }
    assert counts(store.alias) == {"scheduled": 1}


def test_a_job_whose_time_has_passed_is_ready_and_keeps_its_time(store: Store) -> None:
    new = job(scheduled_at=later(hours=-2))
    store.enqueue(new)
    assert counts(store.alias) == {"ready": 1}
    assert all_jobs(store) == [new]


@pytest.mark.parametrize(("hours", "where"), [(0.0, "scheduled"), (2.0, "ready"), (-2.0, "scheduled")])
def test_the_databases_clock_decides_what_is_due(store: Store, hours: float, where: str) -> None:
    new = job(scheduled_at=later(hours=1))
    store.run(with_clock(enqueue(store.sql, [new]), timedelta(hours=hours)))
    assert counts(store.alias) == {where: 1}


def with_clock(operation: Operation[T], shift: timedelta) -> Operation[T]:
    """The operation, with another time from the database."""

    def shifted() -> Flow[T]:
        flow = operation.flow()
        statement = next(flow)
        while True:
            rows = yield statement
            if statement.returns == "t":
                rows = [[moment + shift for moment in found] for found in rows]
            try:
                statement = flow.send(rows)
            except StopIteration as done:
                result: T = done.value
                return result

    return replace(operation, flow=shifted)


def test_a_limited_job_with_a_free_slot_is_ready_and_holds_the_slot(store: Store) -> None:
    new = limited(queue_name="mail", priority=3, lane=Lane.THREAD)
    assert store.enqueue(new) == Enqueued()
    assert row(store.alias, "ReadyExecution", new.id) == {
        "job_id": new.id,
        "queue_name": "mail",
        "lane": Lane.THREAD,
        "priority": 3,
    }
    slot = row(store.alias, "Semaphore", new.id)
    assert slot is not None
    assert (slot["concurrency_key"], slot["slot"]) == ("key", 1)
    assert counts(store.alias) == {"ready": 1}


def test_a_limited_job_without_a_free_slot_is_blocked(store: Store) -> None:
    first, second = limited(), limited(priority=5)
    store.enqueue(first)
    assert store.enqueue(second) == Enqueued()
    assert row(store.alias, "BlockedExecution", second.id) == {
        "job_id": second.id,
        "concurrency_key": "key",
        "priority": 5,
    }
    assert counts(store.alias) == {"ready": 1, "blocked": 1}


def test_a_future_limited_job_is_scheduled_and_takes_no_slot(store: Store) -> None:
    store.enqueue(limited(scheduled_at=later()))
    assert counts(store.alias) == {"scheduled": 1}
    assert count(store.alias, "semaphore") == 0


def test_a_limited_job_whose_time_has_passed_queues_for_a_slot(store: Store) -> None:
    store.enqueue(limited(scheduled_at=later(hours=-1)))
    store.enqueue(limited(scheduled_at=later(hours=-1)))
    assert counts(store.alias) == {"ready": 1, "blocked": 1}


AWKWARD = [
    "'; DROP TABLE steady_queue_job; -- \" ` '' \\' \\",
    "? ?* $1 %s %(p1)s :id {} %% 100%",
    "écran 中文 ß Å",
    "😀 \U0001f9d1\u200d\U0001f680",
    "a\tb\nc\rd\x01\x7f",
    "  before and after  ",
    "",
]


def test_every_text_comes_back_as_it_went_in(store: Store) -> None:
    def all_columns(text: str) -> list[NewJob]:
        return [
            job(queue_name=text, task_path=text, arguments=text, backend=text),
            job(queue_name=text, task_path=text, arguments=text, backend=text, headers=text),
            limited(text, 7, headers=text),
        ]

    alone = [new for text in AWKWARD for new in all_columns(text)]
    for new in alone:
        store.enqueue(new)
    in_bulk = [new for text in AWKWARD for new in all_columns(text)]
    store.enqueue(*in_bulk)
    assert all_jobs(store) == [*alone, *in_bulk]


def test_every_priority_and_lane_is_stored(store: Store) -> None:
    jobs = [job(priority=priority, lane=lane) for priority in (-100, 0, 100) for lane in Lane]
    for new in jobs:
        store.enqueue(new)
    assert all_jobs(store) == jobs


def test_an_instant_of_any_zone_is_stored_to_the_microsecond(store: Store) -> None:
    for hours in (-11, 0, 5.75):
        moment = datetime(2031, 12, 31, 23, 59, 59, 123457, tzinfo=timezone(timedelta(hours=hours)))
        new = job(enqueued_at=moment, scheduled_at=moment + timedelta(days=1))
        store.enqueue(new)
        (record,) = store.find(new)
        assert record.enqueued_at == moment
        assert record.scheduled_at == moment + timedelta(days=1)
        assert record.enqueued_at.utcoffset() == timedelta(0)


def test_arguments_of_a_megabyte_are_stored(store: Store) -> None:
    new = job(arguments='"' + "x" * 1_000_000 + '"')
    store.enqueue(new)
    assert all_jobs(store) == [new]


# -- inside a transaction of the caller ------------------------------------------------------------------------------


def test_without_promotion_limited_jobs_stay_blocked_and_are_returned(store: Store) -> None:
    plain, one, two = job(), limited("a"), limited("b")
    assert store.enqueue(plain, one, two, promoting=False) == Enqueued(blocked=[one, two])
    assert counts(store.alias) == {"ready": 1, "blocked": 2}
    assert count(store.alias, "semaphore") == 0


def test_jobs_admitted_after_the_commit_get_the_free_slots(store: Store) -> None:
    jobs = [limited("a"), limited("a"), limited("b")]
    blocked = store.enqueue(*jobs, promoting=False).blocked
    assert store.run(admit(store.sql, blocked)) == frozenset()
    assert [str(record.status) for record in store.find(*jobs)] == ["ready", "blocked", "ready"]


def test_nothing_is_admitted_twice(store: Store) -> None:
    blocked = store.enqueue(limited("a"), limited("a"), promoting=False).blocked
    store.run(admit(store.sql, blocked))
    store.run(admit(store.sql, blocked))
    assert counts(store.alias) == {"ready": 1, "blocked": 1}
    assert count(store.alias, "semaphore") == 1


def test_jobs_that_discard_on_conflict_are_discarded_after_the_commit_when_their_key_is_full(store: Store) -> None:
    first, second = discarding("a"), discarding("a")
    blocked = store.enqueue(first, second, promoting=False).blocked
    assert store.run(admit(store.sql, blocked)) == {second.id}
    assert stored_ids(store) == {first.id}


# -- discard on conflict ----------------------------------------------------------------------------------------------


def test_a_job_that_discards_on_conflict_is_ready_with_a_free_slot(store: Store) -> None:
    new = discarding()
    assert store.enqueue(new).discarded == frozenset()
    assert counts(store.alias) == {"ready": 1}


def test_a_job_that_discards_on_conflict_is_not_stored_without_a_free_slot(store: Store) -> None:
    first, second = discarding(), discarding()
    store.enqueue(first)
    assert store.enqueue(second).discarded == {second.id}
    assert stored_ids(store) == {first.id}
    assert counts(store.alias) == {"ready": 1}


def test_a_bulk_reports_which_of_its_jobs_were_discarded(store: Store) -> None:
    waiting = [limited("b"), limited("b")]
    kept = [discarding("a", 2), discarding("a", 2), discarding("c"), job(), discarding("d", scheduled_at=later())]
    refused = [discarding("a", 2), discarding("b")]
    assert store.enqueue(*waiting, *kept, *refused).discarded == {new.id for new in refused}
    assert stored_ids(store) == {new.id for new in [*waiting, *kept]}
    assert counts(store.alias) == {"ready": 5, "blocked": 1, "scheduled": 1}


def test_a_job_that_discards_on_conflict_takes_the_slot_that_became_free(store: Store) -> None:
    (claim,) = store.claimed(discarding())
    assert store.enqueue(discarding()).discarded
    store.settle(Finished(claim))
    assert not store.enqueue(discarding()).discarded


def test_a_discarded_job_leaves_the_others_of_its_key_alone(store: Store) -> None:
    holder, waiting, refused = limited(), limited(), discarding()
    store.enqueue(holder, waiting)
    store.enqueue(refused)
    assert [str(record.status) for record in store.find(holder, waiting)] == ["ready", "blocked"]
    assert query(store.alias, "SELECT slot FROM steady_queue_semaphore") == [(1,)]


def test_times_are_the_ones_given_and_not_the_databases(store: Store) -> None:
    new = job(enqueued_at=datetime(2001, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC))
    store.enqueue(new)
    assert store.find(new)[0].enqueued_at == new.enqueued_at
