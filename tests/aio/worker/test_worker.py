"""A worker: what it claims, in which order, and how much of it at once."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.aio.worker.threads import Threads
from steady_queue.configuration import Options, Worker
from steady_queue.errors import ConfigurationError
from tests.shop.tasks import add, fail, greet
from tests.support.databases.tables import count, counts, query
from tests.support.runtime import enqueue_each, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]


@pytest.mark.smoke
async def test_async_and_sync_tasks_run_and_their_results_are_stored(database: str) -> None:
    async with running(worker()) as process:
        added, greeted, failed = await wait_for_results(
            await add.aenqueue(2, b=3), await greet.aenqueue("Ada", times=2), await fail.aenqueue("boom")
        )
        assert added.return_value == 5
        assert greeted.return_value == "Hello, Ada! Hello, Ada!"
        assert added.worker_ids == greeted.worker_ids == failed.worker_ids == [process.name]
        assert error_of(failed) == "builtins.ValueError"
        assert "boom" in failed.errors[0].traceback
        for result in (added, greeted, failed):
            assert result.enqueued_at <= result.started_at <= result.finished_at  # type: ignore[operator]
    assert await in_thread(counts, database) == {"failed": 1}


async def test_jobs_that_waited_before_the_worker_started_run(database: str) -> None:
    results = [*await enqueue_each(add, [1, 2]), await greet.aenqueue("Ada")]
    async with running(worker()):
        assert await values(*results) == [1, 2, "Hello, Ada!"]


@pytest.mark.parametrize(("task", "lane"), [(recording.rests, "async"), (recording.works, "thread")])
async def test_more_jobs_than_capacity_all_run_and_never_more_at_once(
    database: str, task: Task[..., Any], lane: str
) -> None:
    async with running(worker(coroutines=4, threads=4)):
        results = await enqueue_each(task, range(24))
        assert await values(*results) == list(range(24))
    assert task_record.peak[lane] <= 4
    assert set(task_record.runs.values()) == {1}


async def test_a_worker_claims_no_more_than_it_can_start(database: str) -> None:
    await aenqueue_all([recording.awaits.bind(n) for n in range(6)] + [recording.blocks.bind(n) for n in range(6)])
    async with running(worker(coroutines=3, threads=2)):
        await until(lambda: len(task_record.began) == 5)
        assert await in_thread(counts, database) == {"ready": 7, "claimed": 5}
        task_record.gate.set()
        await until(lambda: sum(task_record.runs.values()) == 12)


async def test_every_slot_of_both_lanes_is_used_at_once(database: str) -> None:
    async with running(worker(coroutines=20, threads=4)):
        calls = [recording.awaits.bind(n) for n in range(25)] + [recording.blocks.bind(n) for n in range(6)]
        await aenqueue_all(calls)
        await until(lambda: (task_record.running["async"], task_record.running["thread"]) == (20, 4))
        task_record.gate.set()
        await until(lambda: sum(task_record.runs.values()) == 31)


@pytest.mark.parametrize(("full", "free"), [(recording.blocks, recording.rests), (recording.awaits, recording.works)])
async def test_a_full_lane_does_not_hold_up_the_other(
    database: str, full: Task[..., Any], free: Task[..., Any]
) -> None:
    async with running(worker(coroutines=2, threads=2)):
        waiting = await enqueue_each(full, ["a", "b", "c", "d"])
        await until(lambda: len(task_record.began) == 2)
        assert await values(*await enqueue_each(free, range(10))) == list(range(10))
        assert sum(task_record.running.values()) == 2
        task_record.gate.set()
        assert await values(*waiting) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("lane", ["coroutines", "threads"])
async def test_a_worker_without_a_lane_leaves_its_jobs_alone(database: str, lane: str) -> None:
    without = {"coroutines": 0, "threads": 2} if lane == "coroutines" else {"coroutines": 2, "threads": 0}
    served, unserved = (add, greet) if lane == "coroutines" else (greet, add)
    async with running(worker(**without)):
        await unserved.aenqueue(1)  # type: ignore[operator, arg-type, call-overload, unused-ignore]
        await wait_for_results(await served.aenqueue(1))  # type: ignore[operator, arg-type, call-overload, unused-ignore]
        assert await in_thread(counts, database) == {"ready": 1}


async def test_two_workers_of_a_process_serve_their_own_queues(database: str) -> None:
    options = Options(workers=[Worker(queues=["mail"], coroutines=1), Worker(queues=["reports"], coroutines=1)])
    async with running(options):
        mail = await enqueue_each(recording.awaits.using(queue_name="mail"), ["m1", "m2"])
        await until(lambda: task_record.began == ["m1"])
        reports = await enqueue_each(recording.awaits.using(queue_name="reports"), ["r1"])
        await until(lambda: task_record.began == ["m1", "r1"])
        task_record.gate.set()
        await wait_for_results(*mail, *reports)


async def test_only_named_queues_are_taken_and_in_their_order(database: str) -> None:
    one = recording.rests.using(backend="anything")
    for queue in ("other", "second_b", "second_a", "first"):
        await one.using(queue_name=queue, priority=5 if queue == "other" else 0).aenqueue(queue)
    async with running(worker(queues=["first", "second_*"], coroutines=1)):
        await until(lambda: len(task_record.began) == 3 and not task_record.running["async"])
        assert task_record.began == ["first", "second_a", "second_b"]
    assert await in_thread(counts, database) == {"ready": 1}


async def test_a_star_takes_every_queue_by_priority_then_age(database: str) -> None:
    wanted = [("mail", 0), ("reports", 10), ("default", -10), ("mail", 10), ("default", 0)]
    for queue, priority in wanted:
        await recording.rests.using(queue_name=queue, priority=priority).aenqueue([queue, priority])
    async with running(worker(queues=["*"], coroutines=1)):
        await until(lambda: len(task_record.began) == 5 and not task_record.running["async"])
    assert task_record.began == [["reports", 10], ["mail", 10], ["mail", 0], ["default", 0], ["default", -10]]


async def test_a_star_among_names_takes_every_queue_by_priority(database: str) -> None:
    for queue, priority in (("mail", 0), ("reports", 10), ("default", 5)):
        await recording.rests.using(queue_name=queue, priority=priority).aenqueue(queue)
    async with running(worker(queues=["mail", "*"], coroutines=1)):
        await until(lambda: len(task_record.began) == 3 and not task_record.running["async"])
    assert task_record.began == ["reports", "default", "mail"]


async def test_a_job_in_a_queue_that_appears_later_is_found_by_its_prefix(database: str) -> None:
    task = recording.rests.using(backend="anything")
    first = await task.using(queue_name="mail_a").aenqueue("early")
    async with running(worker(queues=["mail_*"])):
        await wait_for_results(first)
        second = await task.using(queue_name="mail_b").aenqueue("late")
        assert await values(second) == ["late"]


async def test_a_paused_queue_is_not_taken_and_is_taken_after_it_is_resumed(database: str) -> None:
    pause = "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES ('mail', '2030-01-01 00:00:00')"
    await in_thread(query, database, pause)
    async with running(worker()):
        paused = await recording.rests.using(queue_name="mail", priority=50).aenqueue("paused")
        await wait_for_results(await recording.rests.aenqueue("free"))
        assert task_record.began == ["free"]
        await in_thread(query, database, "DELETE FROM steady_queue_pause")
        await wait_for_results(paused)


#: Longer than a busy machine needs to start a job, shorter than the polling interval of an idle worker.
SOON = 12.0


@pytest.mark.parametrize("task", [recording.rests, recording.works])
async def test_a_job_enqueued_while_the_worker_sleeps_starts_at_once(database: str, task: Task[..., Any]) -> None:
    async with running(worker(polling_interval=timedelta(seconds=45))) as process:
        await wait_for_results(await task.aenqueue("first"))
        for enqueue in (task.aenqueue, partial(in_thread, task.enqueue)):
            await until(lambda: process.services.workers[0]._polling._step >= 3)
            began = len(task_record.began)
            await enqueue("next")
            await until(lambda before=began: len(task_record.began) > before, timeout_seconds=SOON)  # type: ignore[misc]


async def test_capacity_that_was_lost_to_a_wrong_forecast_is_recovered(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim for more jobs than its capacity at the end: the capacity that becomes free afterwards is used."""
    forecasts = iter([8])
    monkeypatch.setattr(Threads, "ahead", lambda self, seconds: next(forecasts, 0))
    results = await enqueue_each(recording.works, range(3))
    async with running(worker(coroutines=0, threads=1, polling_interval=timedelta(seconds=45))):
        await until(lambda: len(task_record.began) >= 1)
        results += await enqueue_each(recording.works, range(3, 6))
        await values(*results)


async def test_limited_jobs_are_promoted_one_after_another_without_delay(database: str) -> None:
    async with running(worker(polling_interval=timedelta(seconds=20))):
        results = await enqueue_each(recording.alone, range(8))
        assert await values(*results) == list(range(8))
    assert task_record.peak["alone"] == 1
    assert task_record.began == list(range(8))
    assert await in_thread(count, database, "semaphore") == 0


async def test_a_process_has_a_row_while_it_runs_and_leaves_none(database: str) -> None:
    async with running(worker()) as process:
        assert await in_thread(query, database, "SELECT name, kind FROM steady_queue_process") == [
            (process.name, "process")
        ]
    assert await in_thread(count, database, "process") == 0


async def test_a_heartbeat_too_slow_for_its_threshold_is_refused(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=90))
    with pytest.raises(ConfigurationError, match="process_alive_threshold"):
        async with running(worker()):
            raise AssertionError("it ran")


async def test_options_that_make_no_sense_are_refused_before_anything_runs(database: str) -> None:
    with pytest.raises(ConfigurationError, match=r"subprocesses.*orm_lanes|orm_lanes.*subprocesses"):
        async with running(worker(subprocesses=1, orm_lanes=0)):
            raise AssertionError("it ran")
