"""Shutdown: short tasks finish, async tasks are cancelled, and tasks that cannot be stopped delay nothing."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.process import deadlines
from steady_queue.events import JobReleased, ProcessStopped, ProcessStopping
from steady_queue.jobs.compat import TaskResultStatus, task_finished
from tests.support.databases.tables import count, counts, query
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
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.store.job import Claim

pytestmark = pytest.mark.anyio

#: What a stop may take on a busy machine, although a task never ends: less than the task waits for its gate.
GRACE = 20.0


@pytest.fixture
def short_shutdown_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks have little time after a request to stop."""
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.3))


async def nothing_is_left(alias: str) -> None:
    assert await in_thread(count, alias, "claimedexecution") == 0
    assert await in_thread(count, alias, "process") == 0


def gate_opens_at_the_stop() -> EmittedEvents:
    """Events that open the gate at the first ProcessStopping, after which nothing more is claimed."""
    emitted = EmittedEvents()
    emitted.add(lambda event: task_record.gate.set() if isinstance(event, ProcessStopping) else None)
    return emitted


@pytest.mark.parametrize("task", [recording.awaits, recording.blocks])
async def test_running_tasks_may_finish_and_nothing_new_is_claimed(database: str, task: Task[..., Any]) -> None:
    async with running(worker(coroutines=3, threads=3), events=gate_opens_at_the_stop()):
        results = await enqueue_each(task, range(10))
        await until(lambda: sum(task_record.running.values()) == 3)
    for result in results:
        await result.arefresh()
    assert [result.status == TaskResultStatus.SUCCESSFUL for result in results] == [True] * 3 + [False] * 7
    assert await in_thread(counts, database) == {"ready": 7}
    await nothing_is_left(database)


async def test_an_idle_process_does_not_wait_for_the_time_that_tasks_would_have(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=300))
    async with running(worker()):
        pass
    await nothing_is_left(database)


async def test_a_long_async_task_is_cancelled_and_ready_again_with_no_attempt_spent(
    database: str, short_shutdown_timeout: None
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        result = await recording.awaits.using(expires_after=60).aenqueue("long")
        await until(lambda: task_record.began == ["long"])
    assert await in_thread(counts, database) == {"ready": 1}
    # It was started, so it does not expire any more.
    assert await in_thread(query, database, "SELECT attempts, expires_at FROM steady_queue_job") == [(0, None)]
    assert [(event.released, event.abandoned) for event in emitted.of(ProcessStopped)] == [(1, 0)]
    await nothing_is_left(database)
    task_record.gate.set()
    async with running(worker()):
        assert await values(result) == ["long"]
        assert len(result.worker_ids) == 1


async def test_an_async_task_that_is_stopped_before_its_first_step_is_released(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        slots = process.services.workers[0].capacity
        start = slots.start

        def start_and_stop(claims: list[Claim]) -> None:
            start(claims)
            if claims and not task_record.began:
                slots.stop_async("a test")
                slots.start = start  # type: ignore[method-assign]

        slots.start = start_and_stop  # type: ignore[method-assign, assignment]
        assert await values(await recording.rests.aenqueue("again")) == ["again"]
    assert [event.reason for event in emitted.of(JobReleased)] == ["a test"]
    assert task_record.runs["again"] == 1
    await nothing_is_left(database)


async def test_a_limited_async_task_that_is_released_keeps_its_slot(
    database: str, short_shutdown_timeout: None
) -> None:
    async with running(worker()):
        await enqueue_each(recording.alone_until_open, ["first", "second"])
        await until(lambda: task_record.began == ["first"])
    assert await in_thread(counts, database) == {"ready": 1, "blocked": 1}
    assert await in_thread(count, database, "semaphore") == 1


async def test_tasks_that_do_not_stop_fail_and_do_not_delay_the_shutdown(
    database: str, short_shutdown_timeout: None
) -> None:
    """A coroutine that swallows its cancellation, threads, and threads for which coroutines and their children wait."""
    stubborn = (
        misbehaving.swallows_cancellation,
        recording.blocks,
        recording.alone_in_thread,
        recording.awaits_thread,
        recording.awaits_thread_in_child,
    )
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        results = [await task.aenqueue(number) for number, task in enumerate(stubborn)]
        await until(lambda: sum(task_record.running.values()) == len(stubborn))
        began = time.monotonic()
    assert time.monotonic() - began < GRACE
    assert sum(task_record.running.values()) == len(stubborn)  # all of them still run, so none of them is released
    assert await errors_of(results) == ["steady_queue.processes.ProcessExitError"] * len(stubborn)
    assert [event.abandoned for event in emitted.of(ProcessStopped)] == [len(stubborn)]
    await nothing_is_left(database)
    # Their claims have ended: what they still do has no effect.
    task_record.gate.set()
    await until(lambda: not sum(task_record.running.values()))
    assert await errors_of(results) == ["steady_queue.processes.ProcessExitError"] * len(stubborn)


async def errors_of(results: Sequence[TaskResult[Any]]) -> list[str]:
    for result in results:
        await result.arefresh()
    return [error_of(result) for result in results]


async def test_a_job_is_released_when_the_thread_of_its_coroutine_has_ended_in_time(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "CANCEL_SECONDS", GRACE)
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.2))
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        await recording.awaits_thread.aenqueue("behind")
        await recording.awaits_thread_in_child.aenqueue("behind a child")
        await until(lambda: task_record.running["behind"] == 2)
        opening = asyncio.create_task(open_when_asked(2))
    await opening
    assert await in_thread(counts, database) == {"ready": 2}
    assert [(event.released, event.abandoned) for event in emitted.of(ProcessStopped)] == [(2, 0)]
    await nothing_is_left(database)


async def open_when_asked(number: int) -> None:
    """Open the gate once so many tasks have been cancelled."""
    await until(lambda: task_record.runs["asked to stop"] == number)
    task_record.gate.set()


async def test_functions_that_occupy_every_thread_forever_delay_neither_async_tasks_nor_the_shutdown(
    database: str, short_shutdown_timeout: None
) -> None:
    async with running(worker(threads=2)):
        stuck = await enqueue_each(recording.blocks, range(4))
        await until(lambda: task_record.running["thread"] == 2)
        assert await values(*await enqueue_each(recording.rests, "abc")) == ["a", "b", "c"]
    outcomes = []
    for result in stuck:
        await result.arefresh()
        outcomes.append(error_of(result) if result.errors else result.status)
    ready, failed = TaskResultStatus.READY, "steady_queue.processes.ProcessExitError"
    assert outcomes == [failed, failed, ready, ready]
    await nothing_is_left(database)


async def test_a_block_that_raises_drains_as_well(database: str, short_shutdown_timeout: None) -> None:
    with pytest.raises(LookupError):
        async with running(worker()):
            await recording.awaits.aenqueue("long")
            short = await recording.rests.aenqueue("short")
            await until(lambda: len(task_record.began) == 2)
            raise LookupError
    await short.arefresh()
    assert short.status == TaskResultStatus.SUCCESSFUL
    assert await in_thread(counts, database) == {"ready": 1}
    await nothing_is_left(database)


async def test_a_block_that_is_cancelled_drains_as_well(database: str, short_shutdown_timeout: None) -> None:
    async def embedding() -> None:
        async with running(worker()):
            await recording.awaits.aenqueue("long")
            await asyncio.Event().wait()

    running_it = asyncio.create_task(embedding())
    await until(lambda: task_record.began == ["long"])
    running_it.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running_it
    assert await in_thread(counts, database) == {"ready": 1}
    await nothing_is_left(database)


async def test_a_task_that_has_ended_is_not_run_again_because_a_receiver_is_slow(
    database: str, short_shutdown_timeout: None
) -> None:
    gate = task_record.gate

    def receive(**kwargs: Any) -> None:
        task_record.runs["receiving"] += 1
        gate.wait(1)

    task_finished.connect(receive)
    try:
        async with running(worker()):
            result = await recording.rests.aenqueue("once")
            await until(lambda: task_record.runs["receiving"] == 1)
    finally:
        task_finished.disconnect(receive)
    async with running(worker()):
        await wait_for_results(result)
    assert task_record.runs["once"] == 1


async def test_a_process_can_be_asked_to_stop_several_times(database: str) -> None:
    async with running(worker()) as process:
        assert await values(await recording.rests.aenqueue("one")) == ["one"]
        process.stop()
        process.stop()
    await nothing_is_left(database)


async def test_stopping_in_the_middle_of_much_work_loses_nothing(database: str) -> None:
    results = await enqueue_each(recording.rests, range(200))
    for _ in range(4):
        async with running(worker(coroutines=20)):
            done = len(task_record.began)
            await until(lambda least=done: len(task_record.began) > min(199, least + 20))  # type: ignore[misc]
        await nothing_is_left(database)
    async with running(worker(coroutines=100)):
        assert await values(*results) == list(range(200))
    assert set(task_record.runs.values()) == {1}
