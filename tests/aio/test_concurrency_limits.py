"""Concurrency limits while processes run: long tasks, limits that change, discards, the interval of maintenance."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import aschedule_recurring_task
from steady_queue.aio import dispatcher, running
from steady_queue.aio.maintenance import maintenance
from steady_queue.aio.scheduler import scheduler
from steady_queue.aio.worker import settler
from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.errors import StoreDataError
from steady_queue.events import (
    DatabaseLost,
    DatabaseRecovered,
    JobOverran,
    JobRefused,
    JobsDispatched,
    RecurringDiscarded,
    RecurringEnqueued,
    RecurringFailed,
    SlotsRepaired,
)
from steady_queue.jobs.registry import limits_in_force, registry
from tests.shop.tasks import charge
from tests.support.databases.tables import count, counts, query, row
from tests.support.runtime import (
    EmittedEvents,
    enqueue_each,
    error_of,
    in_thread,
    until,
    values,
    wait_for_results,
    worker,
)
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

SECOND = timedelta(seconds=1)
MOMENTARY = [recording.alone_for_a_moment, recording.alone_for_a_moment_in_thread]


@pytest.fixture
def in_code(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Change the limit of a task in the code; stored jobs are not changed."""

    def change(task: Any, to: int) -> None:
        changed = replace(task, concurrency=replace(task.concurrency, to=to))
        monkeypatch.setitem(registry._known, task.module_path, changed)

    return change


async def stranded(alias: str) -> str:
    """The id of a blocked job whose key has a free slot."""
    await charge.aenqueue("ada")
    second = await charge.aenqueue("ada")
    for table in ("semaphore", "readyexecution"):
        await in_thread(query, alias, f"DELETE FROM steady_queue_{table}")
    jobs = "DELETE FROM steady_queue_job WHERE id NOT IN (SELECT job_id FROM steady_queue_blockedexecution)"
    await in_thread(query, alias, jobs)
    return second.id


# -- long tasks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", MOMENTARY, ids=["async", "thread"])
async def test_another_task_starts_during_a_long_task_that_releases_its_slot_and_both_succeed(
    database: str, task: Task[..., Any]
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        results = await enqueue_each(task, ["long", "next", "last"])
        await until(lambda: task_record.began == ["long"])
        await process.services.maintenance.turn()
        await until(lambda: task_record.began == ["long", "next"])
        (event,) = emitted.of(JobOverran)
        assert (str(event.job_id), event.task_path) == (results[0].id, task.module_path)
        assert event.concurrency_key == f"{task.module_path}/a moment"
        assert await in_thread(counts, database) == {"claimed": 2, "blocked": 1}
        task_record.gate.set()
        assert await values(*results) == ["long", "next", "last"]
    assert set(task_record.runs.values()) == {1}


async def test_a_long_task_that_is_released_without_its_slot_waits_for_one(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(0))
    async with running(worker()) as process:
        results = await enqueue_each(recording.alone_for_a_moment, ["long", "next"])
        await until(lambda: task_record.began == ["long"])
        await process.services.maintenance.turn()
        await until(lambda: task_record.began == ["long", "next"])
    assert await in_thread(counts, database) == {"ready": 1, "blocked": 1}
    assert await in_thread(count, database, "semaphore") == 1
    task_record.gate.set()
    async with running(worker()):
        assert await values(*results) == ["long", "next"]


async def test_a_long_task_keeps_its_slot_by_default(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(microseconds=1))
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        results = await enqueue_each(recording.alone_until_open, ["long", "next"])
        await until(lambda: task_record.began == ["long"])
        for _ in range(3):
            await process.services.maintenance.turn()
        assert await in_thread(counts, database) == {"claimed": 1, "blocked": 1}
        task_record.gate.set()
        await wait_for_results(*results)
    assert emitted.of(JobOverran) == []
    assert emitted.of(SlotsRepaired) == []


# -- limits that change in the code -----------------------------------------------------------------------------------


async def test_a_raised_limit_is_used_up_when_a_slot_frees(database: str, in_code: Any) -> None:
    results = await enqueue_each(recording.alone, range(9))
    assert await in_thread(counts, database) == {"ready": 1, "blocked": 8}
    in_code(recording.alone, 3)
    async with running(worker()):
        assert sorted(await values(*results)) == list(range(9))
    assert task_record.peak["alone"] == 3


async def test_a_raised_limit_is_used_by_the_maintenance(database: str, in_code: Any) -> None:
    async with running(worker()) as process:
        results = await enqueue_each(recording.alone_until_open, range(5))
        await until(lambda: len(task_record.began) == 1)
        in_code(recording.alone_until_open, 4)
        await process.services.maintenance.turn()
        await until(lambda: len(task_record.began) == 4)
        assert await in_thread(counts, database) == {"claimed": 4, "blocked": 1}
        task_record.gate.set()
        assert sorted(await values(*results)) == list(range(5))


async def test_a_raised_limit_is_used_by_the_dispatcher(database: str, in_code: Any) -> None:
    due = datetime.now(UTC) + SECOND / 2
    results = [await recording.alone_until_open.using(run_after=due).aenqueue(number) for number in range(3)]
    in_code(recording.alone_until_open, 3)
    async with running(worker()):
        await until(lambda: len(task_record.began) == 3)
        task_record.gate.set()
        await wait_for_results(*results)


async def test_a_lowered_limit_holds_as_slots_free(database: str, in_code: Any) -> None:
    in_code(recording.alone, 3)
    first = await enqueue_each(recording.alone, range(3))
    in_code(recording.alone, 1)
    others = await enqueue_each(recording.alone, range(3, 30))
    assert await in_thread(counts, database) == {"ready": 3, "blocked": 27}
    async with running(worker()):
        await wait_for_results(*first)
        assert task_record.peak["alone"] == 3
        task_record.peak.clear()
        assert await values(*others) == list(range(3, 30))
    assert task_record.peak["alone"] <= 1


# -- discards ---------------------------------------------------------------------------------------------------------


async def test_a_due_task_that_does_not_wait_is_discarded_and_reported(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        holder = await recording.alone_or_discarded.aenqueue("holder")
        await until(lambda: task_record.began == ["holder"])
        due = datetime.now(UTC) + SECOND / 4
        late = await recording.alone_or_discarded.using(run_after=due).aenqueue("late")
        await until(lambda: bool(emitted.of(JobRefused)))
        assert [str(event.job_id) for event in emitted.of(JobRefused)] == [late.id]
        assert [(event.count, event.discarded) for event in emitted.of(JobsDispatched)] == [(0, 1)]
        assert await in_thread(count, database, "job") == 1
        task_record.gate.set()
        assert await values(holder) == ["holder"]
        assert await values(await recording.alone_or_discarded.aenqueue("next")) == ["next"]


async def test_a_tick_that_does_not_wait_is_discarded_and_reported(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.2)
    emitted = EmittedEvents()
    await recording.alone_or_discarded.aenqueue("holder")
    await aschedule_recurring_task(recording.alone_or_discarded, key="often", every=SECOND, args=("tick",))
    async with running(Options(workers=[], dispatchers=[]), events=emitted):
        await until(lambda: len(emitted.of(RecurringDiscarded)) >= 2)
    assert emitted.of(RecurringEnqueued) == []
    assert await in_thread(count, database, "job") == 1


async def test_a_tick_whose_key_cannot_be_computed_is_reported_and_other_entries_fire(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "LOOK_SECONDS", 0.2)
    emitted = EmittedEvents()
    await aschedule_recurring_task(recording.has_a_bad_key, key="bad", every=SECOND, args=(0,))
    await aschedule_recurring_task(recording.rests, key="good", every=SECOND, args=("good",))
    async with running(Options(), events=emitted):
        await until(lambda: task_record.runs["good"] >= 1 and bool(emitted.of(RecurringFailed)))
    fault = emitted.of(RecurringFailed)[0].error
    assert (
        "ConcurrencyKeyError: the concurrency key of tests.support.tasks.recording.has_a_bad_key could not be" in fault
    )
    paths = await in_thread(query, database, "SELECT DISTINCT task_path FROM steady_queue_job")
    assert paths == [("tests.support.tasks.recording.rests",)]


# -- the maintenance --------------------------------------------------------------------------------------------------


async def test_without_concurrency_maintenance_only_the_sweep_for_blocked_tasks_is_left_out(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "default_concurrency_control_period", timedelta(microseconds=1))
    id_ = await stranded(database)
    emitted = EmittedEvents()
    options = Options(workers=[Worker()], dispatchers=[Dispatcher(concurrency_maintenance=False)])
    async with running(options, events=emitted) as process:
        await process.services.maintenance.turn()
        assert await in_thread(row, database, "blockedexecution", id_)
        results = await enqueue_each(recording.alone_for_a_moment, ["long", "next"])
        await until(lambda: task_record.began == ["long"])
        await process.services.maintenance.turn()
        await until(lambda: task_record.began == ["long", "next"])
        task_record.gate.set()
        await wait_for_results(*results)
        assert await in_thread(row, database, "blockedexecution", id_)
    async with running(worker()) as process:
        await process.services.maintenance.turn()
        await until(lambda: in_thread(lambda: row(database, "blockedexecution", id_) is None))


async def test_the_interval_of_the_concurrency_maintenance_is_an_upper_bound(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "INTERVAL_SECONDS", 600.0)
    quick = Dispatcher(concurrency_maintenance_interval=timedelta(milliseconds=50))
    id_ = await stranded(database)
    async with running(Options(workers=[], dispatchers=[Dispatcher(), quick])):
        await until(lambda: in_thread(lambda: row(database, "blockedexecution", id_) is None))


@pytest.mark.parametrize(
    ("asked", "sweeps", "interval"),
    [(600, True, 5.0), (5, True, 5.0), (1, True, 1.0), (1, False, 5.0)],
    ids=["seldom", "as often", "often", "off"],
)
async def test_the_maintenance_is_never_less_frequent_than_by_default(
    database: str, asked: int, sweeps: bool, interval: float
) -> None:
    dispatcher = Dispatcher(concurrency_maintenance=sweeps, concurrency_maintenance_interval=timedelta(seconds=asked))
    async with running(Options(workers=[], dispatchers=[dispatcher])) as process:
        assert process.services.maintenance._interval_seconds == interval


# -- what the database can never store --------------------------------------------------------------------------------


class Refusing:
    """The limits in force, and one task whose promotions always fail, as if a value did not fit."""

    def __init__(self, path: str) -> None:
        self.path: str | None = path
        self.asked = 0

    def get(self, path: str, otherwise: int, /) -> int:
        if path == self.path:
            self.asked += 1
            raise StoreDataError("it does not fit")
        return limits_in_force.get(path, otherwise)


async def test_an_outcome_that_cannot_be_stored_is_retried_slowly_and_other_outcomes_are_written(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted, refusing = EmittedEvents(), Refusing(recording.alone.module_path)
    bad = await recording.alone.aenqueue("bad")
    monkeypatch.setattr(settler, "limits_in_force", refusing)
    monkeypatch.setattr(settler, "UNSTORABLE_PAUSE_SECONDS", 0.05)
    async with running(worker(), events=emitted):
        await until(lambda: refusing.asked >= 2)
        assert await values(*await enqueue_each(charge, ["ada", "ada"])) == [None, None]
        await until(lambda: bool(emitted.of(DatabaseLost)))
        refusing.path = None
        await wait_for_results(bad)
    assert error_of(bad) == "steady_queue.errors.StoreDataError"
    assert {event.service for event in emitted.of(DatabaseLost)} == {"limited settler of what cannot be stored"}
    assert len(emitted.of(DatabaseRecovered)) == 1


async def test_a_due_task_that_cannot_be_moved_holds_up_no_other(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted, refusing = EmittedEvents(), Refusing(recording.alone.module_path)
    calls: list[tuple[Any, str]] = [
        (charge, "ada"),
        (recording.alone, "bad"),
        (charge, "alan"),
        (recording.alone, "bad"),
        (charge, "grace"),
    ]
    results = [await task.using(run_after=timedelta(hours=1)).aenqueue(argument) for task, argument in calls]
    past = "UPDATE steady_queue_scheduledexecution SET scheduled_at = '2020-01-01 00:00:00.000000'"
    await in_thread(query, database, past)
    monkeypatch.setattr(dispatcher, "limits_in_force", refusing)
    async with running(worker(), events=emitted):
        await wait_for_results(*[result for result, (task, _) in zip(results, calls, strict=True) if task is charge])
        await until(lambda: bool(emitted.of(DatabaseLost)))
        assert await in_thread(counts, database) == {"scheduled": 2}
        refusing.path = None
        await wait_for_results(*results)
