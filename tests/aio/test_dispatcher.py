"""Dispatchers: jobs run at their time, not before, and once with any number of dispatchers."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.db import transaction
from django.db.models import F

from steady_queue import aenqueue_all
from steady_queue.aio import dispatcher as dispatcher_module
from steady_queue.aio import running
from steady_queue.arguments import loads
from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.db.aliases import connection_parameters
from steady_queue.db.notify import DISPATCHED, DUE_SOON
from steady_queue.events import DatabaseLost, JobsDispatched
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.models import Job, ScheduledExecution
from steady_queue.store.drivers.postgres import listen
from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.operations.dispatch import dispatch
from tests.shop.tasks import refresh
from tests.support.databases.refuse_changes import refusing
from tests.support.databases.tables import counts, query
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording, retrying
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.store.operations.dispatch import Dispatched

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
#: The next poll is too late for any test: the dispatcher is in time only if it knows the due time.
SLEEPY = Options(workers=[Worker()], dispatchers=[Dispatcher(polling_interval=timedelta(seconds=45))])


@pytest.mark.smoke
async def test_a_scheduled_job_runs_when_it_is_due_and_not_before(database: str) -> None:
    async with running(worker()):
        due = datetime.now(UTC) + timedelta(seconds=0.5)
        result = await recording.rests.using(run_after=due).aenqueue("due")
        await recording.rests.using(run_after=HOUR).aenqueue("later")
        await wait_for_results(result)
        assert result.started_at >= due  # type: ignore[operator]
        assert (result.started_at - due).total_seconds() < 2  # type: ignore[operator]
    assert task_record.began == ["due"]
    assert await in_thread(counts, database) == {"scheduled": 1}


async def test_a_dispatcher_wakes_for_the_due_time_it_knows_of(database: str) -> None:
    waiting = await recording.rests.using(run_after=timedelta(seconds=0.8)).aenqueue("known at start")
    async with running(SLEEPY):
        earlier = await recording.rests.using(run_after=timedelta(seconds=0.3)).aenqueue("enqueued later, due earlier")
        await wait_for_results(waiting, earlier, timeout_seconds=10)
    assert task_record.began == ["enqueued later, due earlier", "known at start"]


async def test_more_due_jobs_than_a_batch_are_moved_without_a_pause(database: str) -> None:
    past = datetime.now(UTC) + timedelta(seconds=0.2)
    calls = [recording.rests.using(run_after=past).bind(number) for number in range(50)]
    await aenqueue_all(calls)
    options = Options(
        workers=[Worker()], dispatchers=[Dispatcher(polling_interval=timedelta(seconds=45), batch_size=7)]
    )
    async with running(options):
        await until(lambda: len(task_record.runs) == 50, timeout_seconds=10)
    assert set(task_record.runs.values()) == {1}


async def test_limited_jobs_that_fall_due_together_run_one_after_another(database: str) -> None:
    due = datetime.now(UTC) + timedelta(seconds=0.3)
    results = [await recording.alone.using(run_after=due).aenqueue(number) for number in range(6)]
    async with running(worker()):
        assert sorted(await values(*results)) == list(range(6))
    assert task_record.peak["alone"] == 1


async def test_two_processes_dispatch_and_run_everything_once(database: str) -> None:
    first, second = EmittedEvents(), EmittedEvents()
    options = Options(workers=[Worker(coroutines=10)], dispatchers=[Dispatcher(batch_size=5)] * 2)
    async with running(options, events=first) as one, running(options, events=second) as other:
        due = datetime.now(UTC) + timedelta(seconds=1)
        await aenqueue_all(recording.rests.using(run_after=due).bind(number) for number in range(120))
        await until(lambda: len(task_record.runs) == 120 and not task_record.running["async"])
        await until(lambda: _all_jobs_finished(database))
        owners = await in_thread(query, database, "SELECT DISTINCT worker_ids FROM steady_queue_job")
        assert {owner for (owner,) in owners} <= {one.name, other.name}
    assert set(task_record.runs.values()) == {1}
    moved = [event.count for emitted in (first, second) for event in emitted.of(JobsDispatched)]
    assert sum(moved) == 120


async def _all_jobs_finished(alias: str) -> bool:
    return not await in_thread(counts, alias)


async def test_a_process_that_only_works_leaves_scheduled_jobs_alone(database: str) -> None:
    result: TaskResult[Any] = await recording.rests.using(run_after=timedelta(milliseconds=300)).aenqueue("due")
    async with running(Options(workers=[Worker()], only_work=True)):
        assert await values(await recording.rests.aenqueue("now")) == ["now"]
        assert await in_thread(counts, database) == {"scheduled": 1}
    async with running(worker()):
        await wait_for_results(result)


async def test_a_process_without_workers_only_moves_them(database: str) -> None:
    await recording.rests.using(run_after=timedelta(milliseconds=50)).aenqueue("due")

    async def is_ready() -> bool:
        return await in_thread(counts, database) == {"ready": 1}

    async with running(Options(workers=[])):
        await until(is_ready)


async def test_due_jobs_are_moved_by_time_then_priority_a_batch_at_a_time(database: str) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=10)
    for name, delay, priority in (("late", 0.02, 50), ("low", 0.01, -5), ("high", 0.01, 5), ("first", 0, 0)):
        due = soon + timedelta(seconds=delay)
        await recording.rests.using(run_after=due, priority=priority).aenqueue(name)
    await in_thread(lambda: until_due(database))
    moved = []
    for _ in range(5):
        (number, _), names = await in_thread(dispatched, database), await in_thread(ready, database)
        moved.append((number, names))
    assert moved == [
        (1, ["first"]),
        (1, ["first", "high"]),
        (1, ["first", "high", "low"]),
        (1, ["first", "high", "late", "low"]),
        (0, ["first", "high", "late", "low"]),
    ]


def until_due(alias: str) -> None:
    """Make all scheduled jobs due, in the same order."""
    for model in (ScheduledExecution, Job):
        model.objects.using(alias).update(scheduled_at=F("scheduled_at") - HOUR)


def dispatched(alias: str) -> Dispatched:
    store = SyncStore(alias)
    return store.run(dispatch(store.sql, 1))


def ready(alias: str) -> list[str]:
    """The arguments of the ready jobs, in alphabetical order."""
    texts = query(alias, "SELECT arguments FROM steady_queue_job JOIN steady_queue_readyexecution ON id = job_id")
    return sorted(str(loads(text)[0][0]) for (text,) in texts)


async def test_a_scheduled_job_that_does_not_wait_for_a_slot_is_deleted_when_it_falls_due_without_one(
    database: str,
) -> None:
    emitted = EmittedEvents()
    await refresh.aenqueue(1)
    later = await refresh.using(run_after=timedelta(milliseconds=100)).aenqueue(1)
    async with running(Options(workers=[]), events=emitted):
        await until(lambda: bool(emitted.of(JobsDispatched)))
    assert [event.discarded for event in emitted.of(JobsDispatched)] == [1]
    with pytest.raises(TaskResultDoesNotExist):
        await later.arefresh()
    assert await in_thread(counts, database) == {"ready": 1}


@pytest.mark.only_on("postgres", "mariadb")  # SQLite locks no rows
async def test_a_due_job_whose_row_is_locked_is_waited_for_with_pauses(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []
    dispatch_once = dispatcher_module.Dispatcher._dispatch

    async def noted(self: dispatcher_module.Dispatcher) -> bool:
        tried.append(time.monotonic())
        return await dispatch_once(self)

    monkeypatch.setattr(dispatcher_module.Dispatcher, "_dispatch", noted)
    result = await recording.rests.using(run_after=HOUR).aenqueue("held")
    await ScheduledExecution._base_manager.using(database).aupdate(scheduled_at=F("scheduled_at") - 2 * HOUR)
    is_held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic(using=database):
            query(database, "SELECT job_id FROM steady_queue_scheduledexecution FOR UPDATE")
            is_held.set()
            let_go.wait(30)

    holding = asyncio.create_task(in_thread(hold))
    try:
        await until(is_held.is_set)
        async with running(worker()):
            await until(lambda: len(tried) >= 4)
            let_go.set()
            assert await values(result) == ["held"]
    finally:
        let_go.set()
        await holding
    assert tried[3] - tried[0] >= 3 * dispatcher_module.HELD_PAUSE_SECONDS * 0.9


async def test_a_due_job_that_the_database_refuses_holds_up_no_other(database: str) -> None:
    emitted = EmittedEvents()
    results = [await recording.rests.using(run_after=HOUR).aenqueue(number) for number in range(5)]
    await in_thread(lambda: until_due(database))
    async with (
        refusing(database, "INSERT", "readyexecution", UUID(results[2].id)),
        running(worker(), events=emitted),
    ):
        await wait_for_results(*results[:2], *results[3:])
        await until(lambda: bool(emitted.of(DatabaseLost)))
        assert await in_thread(counts, database) == {"scheduled": 1}


@pytest.mark.only_on("postgres")
async def test_a_retry_by_a_process_without_dispatchers_wakes_the_dispatcher_of_another_process(database: str) -> None:
    async with running(Options(workers=[], dispatchers=SLEEPY.dispatchers)) as other:
        await until(other.services.is_listening)
        async with running(Options(workers=[Worker()], only_work=True)):
            result = await retrying.flaky.aenqueue(3)
            await wait_for_results(result, timeout_seconds=10)


@pytest.mark.parametrize("has_dispatcher", [True, False])
@pytest.mark.only_on("postgres")
async def test_only_a_process_that_does_not_dispatch_notifies_others_of_a_job_that_is_due_soon(
    database: str, has_dispatcher: bool
) -> None:
    received: list[str] = []
    options = Options(workers=[Worker()], dispatchers=SLEEPY.dispatchers, only_work=not has_dispatcher)
    link = await listen(connection_parameters(database), NOTIFY_CHANNEL, received.append, lambda: None)
    try:
        async with running(options) as process:
            await process.services.wake_ups.wake_dispatchers()
            await process.services.wake_ups.wake_workers()
            await until(lambda: DISPATCHED in received)
    finally:
        await link.close()
    assert (DUE_SOON in received) is not has_dispatcher
