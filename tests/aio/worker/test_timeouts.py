"""Timeouts: an async task is cancelled, a function in a thread is reported, and neither disturbs another task."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.test import override_settings

import steady_queue
from steady_queue import actions
from steady_queue.aio import running
from steady_queue.aio.worker.control import timeouts
from steady_queue.errors import TaskTimeout
from steady_queue.events import JobFailed, JobPastTimeout, JobReleased, ProcessStopped, ThreadsStuck
from steady_queue.jobs.compat import task_finished
from tests.aio.worker.helpers import still_works
from tests.support.databases.tables import count, counts, query
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import misbehaving, recording, timing_out
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.backend import SteadyQueueBackend
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.jobs.definition.task import SteadyQueueTask

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

TIMEOUT = "steady_queue.errors.TaskTimeout"
SHORT = 0.05


@pytest.fixture(autouse=True)
def soon_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that continues after its timeout counts as stuck almost at once."""
    monkeypatch.setattr(timeouts, "STUCK_TASK_SECONDS", 0.05)
    monkeypatch.setattr(timeouts, "STUCK_THREAD_SECONDS", 0.05)


async def has_no_claims(alias: str) -> bool:
    return await in_thread(count, alias, "claimedexecution") == 0


# -- in the event loop ------------------------------------------------------------------------------------------------


async def test_an_async_task_is_cancelled_and_fails_with_the_place_where_it_was(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=1), events=emitted):
        (result,) = await wait_for_results(await timing_out.awaits_for_ever.aenqueue())
        await still_works()
    assert error_of(result) == TIMEOUT
    assert result.errors[0].exception_class is TaskTimeout
    assert "the attempt took longer than its timeout of 0.05 s" in result.errors[0].traceback
    assert "in _await_an_event" in result.errors[0].traceback
    assert not emitted.of(JobPastTimeout)
    assert len(emitted.of(JobFailed)) == 1
    assert await in_thread(query, database, "SELECT max(attempts) FROM steady_queue_job") == [(1,)]


async def test_the_timeout_of_a_call_wins_over_that_of_the_task_and_that_over_the_default(
    database: str,
) -> None:
    tasks = {**settings.TASKS, "default": {**settings.TASKS["default"], "OPTIONS": {"timeout": 0.02}}}
    with override_settings(TASKS=tasks):
        await has_three_timeouts()


async def has_three_timeouts() -> None:
    async with running(worker()):
        ends = await timing_out.reads_deadline.aenqueue(7)
        of_task = await timing_out.awaits_for_ever.aenqueue()
        of_call = await timing_out.awaits_for_ever.using(timeout=timedelta(seconds=0.03)).aenqueue()
        of_project = await recording.awaits_event.aenqueue("default")
        await wait_for_results(of_task, of_call, of_project)
        assert await values(ends) == [7]
    texts = [result.errors[0].traceback.splitlines()[-1] for result in (of_task, of_call, of_project)]
    assert [text.rpartition("timeout of ")[2] for text in texts] == ["0.05 s", "0.03 s", "0.02 s"]


async def test_a_task_that_returns_or_raises_after_its_timeout_has_done_so(database: str) -> None:
    async with running(worker()):
        returned = await timing_out.returns_late.using(timeout=SHORT).aenqueue()
        raised = await timing_out.raises_late.using(timeout=SHORT).aenqueue()
        assert await values(returned) == ["late"]
        await wait_for_results(raised)
    assert error_of(raised) == "builtins.LookupError"


@pytest.mark.parametrize("task", [timing_out.tries_twice, timing_out.tries_twice_in_thread])
async def test_a_task_that_timed_out_is_retried_with_the_whole_time(
    database: str, task: SteadyQueueTask[..., Any]
) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await task.aenqueue())
    assert [error.exception_class_path for error in result.errors] == [TIMEOUT] * 2
    assert len(result.worker_ids) == 2


async def test_receivers_of_the_signal_are_not_cancelled_with_the_task(database: str) -> None:
    received: list[str] = []

    async def receive(sender: type[SteadyQueueBackend], task_result: TaskResult[Any], **kwargs: Any) -> None:
        await recording.rests.func("receiver")
        received.append(task_result.id)

    task_finished.connect(receive)
    try:
        async with running(worker()):
            (result,) = await wait_for_results(await timing_out.awaits_for_ever.aenqueue())
            await until(lambda: received == [result.id])
    finally:
        task_finished.disconnect(receive)
    assert error_of(result) == TIMEOUT


async def test_a_call_in_an_orm_thread_ends_before_its_task_has_timed_out(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=1), events=emitted):
        result = await timing_out.awaits_thread.using(timeout=SHORT).aenqueue()
        await until(lambda: bool(emitted.of(JobPastTimeout)))
        assert await in_thread(counts, database) == {"claimed": 1}
        task_record.gate.set()
        await wait_for_results(result)
    assert error_of(result) == TIMEOUT
    assert "block_in_orm_thread" in emitted.of(JobPastTimeout)[0].stack


async def test_a_task_that_swallows_its_cancellation_holds_up_nothing(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=2, threads=1), events=emitted) as process:
        result = await misbehaving.swallows_cancellation.using(timeout=SHORT).aenqueue("stubborn")
        await until(lambda: task_record.runs["asked to stop"] >= 3)
        await still_works()
        # It keeps its claim and its capacity.
        assert process.services.workers[0].capacity._room[0] == 1
        assert await in_thread(counts, database) == {"claimed": 1}
        task_record.gate.set()
        assert await values(result) == [None]
        await until(lambda: process.services.workers[0].capacity._room[0] == 2)
    first, second, *_ = emitted.of(JobPastTimeout)
    assert str(first.job_id) == result.id
    assert "in swallows_cancellation" in first.stack
    assert "executor.py" not in first.stack
    assert second.seconds > first.seconds > first.timeout_seconds == SHORT


async def test_a_stuck_task_does_not_delay_a_shutdown_and_fails_with_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=300))
    emitted = EmittedEvents()
    began = time.monotonic()
    async with running(worker(), events=emitted):
        stubborn = await misbehaving.swallows_cancellation.using(timeout=SHORT).aenqueue("stubborn")
        thread = await recording.blocks.using(timeout=SHORT).aenqueue("thread")
        await until(lambda: len({event.job_id for event in emitted.of(JobPastTimeout)}) == 2)
    assert time.monotonic() - began < 60
    task_record.gate.set()
    await wait_for_results(stubborn, thread)
    assert {error_of(stubborn), error_of(thread)} == {"steady_queue.processes.ProcessExitError"}
    assert [event.abandoned for event in emitted.of(ProcessStopped)] == [2]
    assert not emitted.of(JobReleased)


async def test_a_shutdown_after_the_timeout_does_not_release_the_task(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "STUCK_TASK_SECONDS", 60)
    emitted = EmittedEvents()
    emitted.add(lambda event: task_record.gate.set() if type(event).__name__ == "ProcessStopping" else None)
    async with running(worker(), events=emitted):
        result = await timing_out.stops_slowly.using(timeout=SHORT).aenqueue()
        await until(lambda: task_record.began == ["stops"])
    await wait_for_results(result)
    assert error_of(result) == TIMEOUT
    assert not emitted.of(JobReleased)


async def test_a_shutdown_before_the_timeout_releases_the_task_with_no_attempt_spent(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.1))
    async with running(worker()):
        await recording.awaits.using(timeout=60).aenqueue("long")
        await until(lambda: task_record.began == ["long"])
    assert await in_thread(counts, database) == {"ready": 1}
    assert await in_thread(query, database, "SELECT attempts FROM steady_queue_job") == [(0,)]


async def test_a_task_that_is_cancelled_after_its_timeout_has_been_cancelled(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "STUCK_TASK_SECONDS", 60)
    async with running(worker()) as process:
        result = await timing_out.stops_slowly.using(timeout=SHORT, max_attempts=3).aenqueue()
        await until(lambda: task_record.began == ["stops"])
        await actions.acancel(result.id)
        await until(lambda: all(job.cancellation for job in process.services.claims.running_jobs()))
        task_record.gate.set()
        await wait_for_results(result)
    assert error_of(result) == "steady_queue.errors.TaskCancelled"


# -- in threads -------------------------------------------------------------------------------------------------------


async def test_a_function_in_a_thread_is_reported_and_keeps_its_thread_until_it_ends(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=2), events=emitted) as process:
        result = await recording.blocks.using(timeout=SHORT).aenqueue("blocks")
        await until(lambda: len(emitted.of(JobPastTimeout)) >= 2)
        await still_works()
        capacity = process.services.workers[0].capacity
        assert capacity._room[1] == 1
        assert capacity.stuck_threads == 1
        assert await in_thread(counts, database) == {"claimed": 1}
        task_record.gate.set()
        # What it returns counts: it has finished, although late.
        assert await values(result) == ["blocks"]
        assert capacity.stuck_threads == 0
    first = emitted.of(JobPastTimeout)[0]
    assert (str(first.job_id), first.task_path) == (result.id, recording.blocks.module_path)
    assert "in blocks" in first.stack
    assert "executor.py" not in first.stack
    assert "gate.wait(30)" in first.message()
    # One of two threads is not enough.
    assert not emitted.of(ThreadsStuck)


async def test_a_function_in_a_thread_that_looks_at_the_time_stops_itself(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        (result,) = await wait_for_results(await timing_out.stops_itself.using(timeout=SHORT).aenqueue())
        await still_works()
    assert error_of(result) == TIMEOUT


@pytest.mark.parametrize("task", [timing_out.returns_times, timing_out.returns_times_async])
async def test_a_task_can_read_its_deadline_and_what_is_left_of_its_time(
    database: str, task: SteadyQueueTask[..., Any]
) -> None:
    async with running(worker()):
        without, with_timeout = await values(
            await task.aenqueue(), await task.using(timeout=timedelta(hours=1)).aenqueue()
        )
    assert without == [None, None]
    deadline, remaining = with_timeout
    assert 3500 < remaining <= 3600
    left = datetime.fromisoformat(deadline) - datetime.now(UTC)
    assert timedelta(minutes=50) < left <= timedelta(hours=1)


async def test_without_a_supervisor_stuck_threads_are_reported_once_and_others_run_on(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=2), events=emitted) as process:
        results = [await recording.blocks.using(timeout=SHORT).aenqueue(number) for number in range(2)]
        await until(lambda: process.services.workers[0].capacity.stuck_threads == 2)
        await until(lambda: bool(emitted.of(ThreadsStuck)))
        assert await values(await recording.rests.aenqueue("async")) == ["async"]
        await until(lambda: len(emitted.of(JobPastTimeout)) >= 6)
        task_record.gate.set()
        assert await values(*results) == [0, 1]
        await still_works()
    (event,) = emitted.of(ThreadsStuck)
    assert (event.stuck, event.threads, event.is_replaced) == (2, 2, False)


async def test_a_later_task_with_a_shorter_timeout_is_found_in_time(database: str) -> None:
    async with running(worker()):
        long = [await task.using(timeout=3000).aenqueue("long") for task in (recording.awaits, recording.blocks)]
        await until(lambda: task_record.began == ["long", "long"])
        (short,) = await wait_for_results(await timing_out.awaits_for_ever.aenqueue())
        overdue = await timing_out.stops_itself.using(timeout=SHORT).aenqueue()
        await wait_for_results(overdue)
        task_record.gate.set()
        assert await values(*long) == ["long", "long"]
    assert [error_of(short), error_of(overdue)] == [TIMEOUT, TIMEOUT]


async def test_tasks_without_a_timeout_are_never_looked_at(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    monkeypatch.setattr(timeouts.Timeouts, "_look", looks.append)
    async with running(worker()):
        await still_works()
    assert looks == []
