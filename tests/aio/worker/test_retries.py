"""Retries by a real worker and its dispatcher, in the loop and in threads.

T1, T7, R3 and R4 are items of the list of what other queues can do.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import events
from steady_queue.aio import running
from steady_queue.configuration import Options, Worker
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
from tests.support.databases.tables import counts, query
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import recording, retrying
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

FLAKY = [retrying.flaky, retrying.flaky_in_thread]


@pytest.fixture(autouse=True)
def empty_records() -> None:
    retrying.seen.clear()
    retrying.attempts.clear()


@pytest.mark.smoke
@pytest.mark.parametrize("task", FLAKY)
async def test_r4_a_task_that_raises_runs_again_until_it_returns(database: str, task: Task[..., Any]) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        (result,) = await wait_for_results(await task.aenqueue(3))
    assert (result.return_value, result.attempts, result.worker_ids) == (3, 3, [process.name] * 3)
    assert [event.attempt for event in emitted.of(events.JobRetryScheduled)] == [1, 2]
    assert emitted.of(events.JobFailed) == []


@pytest.mark.parametrize("task", FLAKY)
async def test_t7_a_task_out_of_attempts_is_kept_with_its_errors(
    database: str, task: Task[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    emitted = EmittedEvents()
    with caplog.at_level(logging.INFO):
        async with running(worker(), events=emitted):
            (result,) = await wait_for_results(await task.aenqueue(100))
    assert isinstance(result, SteadyQueueResult)
    assert (result.state, result.attempts, len(result.errors)) == (TaskState.EXHAUSTED, 3, 3)
    assert len(emitted.of(events.JobFailed)) == 1
    framework = [record for record in caplog.records if record.name.startswith("django") and "FAILED" in record.message]
    assert len(framework) == 1
    assert await in_thread(counts, database) == {"failed": 1}


async def test_a_retry_is_logged_as_a_warning_with_its_delay_and_its_error(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "steady_queue"):
        async with running(worker()):
            result = await retrying.stepped.aenqueue(2)
            await until(lambda: any("failed in attempt" in record.message for record in caplog.records))
    (line,) = [record for record in caplog.records if "failed in attempt" in record.message]
    assert line.levelno == logging.WARNING
    assert line.message == (
        f"tests.support.tasks.retrying.stepped {result.id} failed in attempt 1, the next one is in 60.0 s:"
        " builtins.ValueError: attempt 1"
    )


async def test_t1_a_task_can_ask_for_its_retry_itself(database: str) -> None:
    async with running(worker()):
        assert await values(await retrying.asks.aenqueue("later")) == ["done"]
        retrying.attempts.clear()
        assert await values(await retrying.asks_in_thread.aenqueue("by backoff")) == ["done"]


async def test_r3_the_options_of_a_call_are_kept_over_its_attempts(database: str) -> None:
    call = retrying.flaky.using(max_attempts=4, queue_name="mail", priority=7)
    async with running(worker(queues=["mail"])):
        (result,) = await wait_for_results(await call.aenqueue(4))
    assert (result.return_value, result.task.queue_name, result.task.priority) == (4, "mail", 7)


async def test_a_task_that_snoozes_emits_why(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        assert await values(await retrying.asks.aenqueue("snooze")) == ["done"]
    (snoozed,) = emitted.of(events.JobSnoozed)
    assert (snoozed.reason, snoozed.delay_seconds) == ("too early", 0)


async def test_a_task_that_a_shutdown_releases_spends_no_attempt(database: str) -> None:
    async with running(worker()):
        result = await recording.awaits.aenqueue("released")
        await until(lambda: task_record.began == ["released"])
    await result.arefresh()
    assert isinstance(result, SteadyQueueResult)
    assert (result.state, result.attempts, result.retries, result.errors) == (TaskState.READY, 0, 0, [])


async def test_a_task_that_is_interrupted_spends_no_attempt(database: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await retrying.asks.using(expires_after=60).aenqueue("interrupted"))
    assert (result.return_value, result.attempts, result.errors) == ("done", 1, [])
    # It was started, so it did not expire any more.
    assert await in_thread(query, database, "SELECT expires_at FROM steady_queue_job") == [(None,)]


async def test_a_task_with_a_limit_leaves_its_slot_to_the_next_one_while_it_waits(database: str) -> None:
    async with running(worker()):
        waiting = await retrying.limited.aenqueue()
        assert await values(await retrying.limited.aenqueue(True)) == [True]
        await waiting.arefresh()
    assert isinstance(waiting, SteadyQueueResult)
    assert waiting.state is TaskState.RETRYING
    assert await in_thread(counts, database) == {"scheduled": 1}


async def test_without_a_dispatcher_a_retry_waits(database: str) -> None:
    async with running(Options(workers=[Worker()], dispatchers=[])):
        result = await retrying.flaky.aenqueue(2)
        await until(lambda: retrying.attempts == [1])
        assert await values(await recording.works.aenqueue("other")) == ["other"]
    await result.arefresh()
    assert isinstance(result, SteadyQueueResult)
    assert result.state is TaskState.RETRYING
