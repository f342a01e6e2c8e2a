"""Statistics: minutes that processes write, hours that maintenance makes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue.store.operations.maintenance.statistics import (
    NO_PROCESS,
    SUMS,
    TaskSums,
    clear_hours,
    fold_minutes,
    write_minutes,
)
from steady_queue.store.operations.maintenance.steps import find_work
from steady_queue.store.statement import Operation
from tests.support.databases.tables import count

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.maintenance.steps import Work
    from steady_queue.store.statement import Flow
    from tests.support.store.stores import Store

PATH = "shop.tasks.é😀"


def minute_of(time: datetime) -> datetime:
    return time.replace(second=0, microsecond=0)


def hour_of(time: datetime) -> datetime:
    return minute_of(time).replace(minute=0)


def hours_ago(store: Store, hours: int) -> datetime:
    """The start of an hour."""
    return hour_of(store.now()) - timedelta(hours=hours)


def sums(starts_at: datetime, *numbers: int, queue: str = "mail", path: str = PATH) -> TaskSums:
    return TaskSums(starts_at, queue, path, *numbers)


def stored(store: Store, seconds: int) -> dict[tuple[UUID, datetime, str, str], tuple[int, ...]]:
    from steady_queue.models import TaskStatistics

    rows = TaskStatistics.objects.using(store.alias).filter(seconds=seconds)
    return {
        (row.process_id, row.starts_at, row.queue_name, row.task_path): tuple(getattr(row, name) for name in SUMS)
        for row in rows
    }


def find(store: Store, keep_hours: timedelta | None = None) -> Work:
    return store.run(find_work(store.sql, alive=timedelta(hours=1), keep=None, keep_hours=keep_hours))


def test_a_minute_that_is_written_again_is_replaced_and_other_rows_are_left_alone(store: Store) -> None:
    minute, process, other = minute_of(store.now()), uuid4(), uuid4()
    store.run(write_minutes(store.sql, process, []))
    assert count(store.alias, "taskstatistics") == 0
    first = sums(minute, 1, 0, 0, 0)
    last = sums(minute, 5, 3, 1, 1, 2**40, 2**39, 2**30, 2**41, 2**38)
    separate = [sums(minute, 9, queue="other"), sums(minute, 8, path="other"), sums(minute - timedelta(minutes=1), 7)]
    store.run(write_minutes(store.sql, other, [first]))
    for _ in range(2):  # the reply of the first may be lost
        store.run(write_minutes(store.sql, process, [first, *separate]))
        store.run(write_minutes(store.sql, process, [last]))
    assert stored(store, 60) == {
        (other, *first[:3]): first[3:],
        **{(process, *row[:3]): row[3:] for row in (last, *separate)},
    }


def test_more_rows_than_one_statement_takes_are_written(store: Store) -> None:
    minute = minute_of(store.now())
    store.run(write_minutes(store.sql, uuid4(), [sums(minute, 1, path=f"task {number}") for number in range(501)]))
    assert count(store.alias, "taskstatistics") == 501


def test_minutes_of_all_processes_become_hours_two_hours_after_they_ended(store: Store) -> None:
    old, young = hours_ago(store, 3), hours_ago(store, 2)
    processes = [uuid4(), uuid4()]
    assert not find(store).minutes
    for number, process in enumerate(processes, 1):
        store.run(
            write_minutes(
                store.sql,
                process,
                [
                    sums(old, 10, 5, 2, 1, 1000, 10 * number, 4, 500, 50),
                    sums(old + timedelta(minutes=59), 1, 1, 0, 0, 7, 7, 1, 3, 3),
                    sums(old, 1, path="other"),
                    sums(young, 1),
                ],
            )
        )
    assert store.run(fold_minutes(store.sql, 4)) == 4
    assert store.run(fold_minutes(store.sql, 4)) == 2
    assert store.run(fold_minutes(store.sql)) == 0
    assert stored(store, 3600) == {
        (NO_PROCESS, old, "mail", PATH): (22, 12, 4, 2, 2014, 20, 10, 1006, 50),
        (NO_PROCESS, old, "mail", "other"): (2, 0, 0, 0, 0, 0, 0, 0, 0),
    }
    assert set(stored(store, 60)) == {(process, young, "mail", PATH) for process in processes}
    # A process that was cut off writes a minute late.
    store.run(write_minutes(store.sql, uuid4(), [sums(old, 1, 1, 0, 0, 30, 30)]))
    store.run(fold_minutes(store.sql))
    assert stored(store, 3600)[NO_PROCESS, old, "mail", PATH] == (23, 13, 4, 2, 2044, 30, 10, 1006, 50)


def test_a_turn_of_maintenance_finds_minutes_whose_hour_ended_long_ago_and_old_hours(store: Store) -> None:
    old = hours_ago(store, 5)
    store.run(write_minutes(store.sql, uuid4(), [sums(minute_of(store.now()), 1), sums(hours_ago(store, 2), 1)]))
    assert not find(store).minutes
    store.run(write_minutes(store.sql, uuid4(), [sums(old, 1)]))
    assert find(store, timedelta(hours=1)).minutes
    assert not find(store, timedelta(hours=1)).old_hours
    store.run(fold_minutes(store.sql))
    assert not find(store).old_hours
    assert not find(store, timedelta(hours=9)).old_hours
    assert find(store, timedelta(hours=1)).old_hours


def test_old_hours_are_deleted_and_minutes_are_not(store: Store) -> None:
    first, second = hours_ago(store, 5), hours_ago(store, 4)
    store.run(write_minutes(store.sql, uuid4(), [sums(first, 1), sums(first, 1, path="other"), sums(second, 1)]))
    store.run(fold_minutes(store.sql))
    store.run(write_minutes(store.sql, uuid4(), [sums(first, 1)]))
    keep = store.now() - second + timedelta(minutes=1)
    assert store.run(clear_hours(store.sql, keep, 1)) == 1
    assert store.run(clear_hours(store.sql, keep, 1)) == 1
    assert store.run(clear_hours(store.sql, keep, 1)) == 0
    assert [key[1] for key in stored(store, 3600)] == [second]
    assert len(stored(store, 60)) == 1


class Crash(Exception):
    pass


@pytest.mark.parametrize("statements", [1, 2])
def test_a_crash_while_minutes_are_folded_changes_nothing(store: Store, statements: int) -> None:
    """After the hours were written, and after the minutes were deleted."""
    old = hours_ago(store, 3)
    store.run(write_minutes(store.sql, uuid4(), [sums(old, 1, 1)]))

    def crash() -> Flow[None]:
        flow, changes = fold_minutes.flow(store.sql), 0
        statement = next(flow)
        while True:
            rows = yield statement
            changes += not statement.returns
            if changes == statements:
                raise Crash
            statement = flow.send(rows)

    before = stored(store, 60)
    with pytest.raises(Crash):
        store.run(Operation("crash", crash))
    assert (stored(store, 60), stored(store, 3600)) == (before, {})
    assert store.run(fold_minutes(store.sql)) == 1
    assert (stored(store, 60), list(stored(store, 3600).values())) == ({}, [(1, 1, 0, 0, 0, 0, 0, 0, 0)])
