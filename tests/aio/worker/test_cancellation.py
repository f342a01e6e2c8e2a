"""Running tasks that are cancelled: where they run, at once, and no other task with them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue import actions
from steady_queue.actions import CancelOutcome
from steady_queue.aio import running
from steady_queue.aio.worker.control import cancellations
from steady_queue.events import JobCancelled, JobFailed
from steady_queue.jobs.compat import TaskResultStatus
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
from steady_queue.store.operations.actions.cancellation import find_requests
from tests.support.databases.tables import count, counts
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
from tests.support.tasks import cancelled, misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

CANCELLED = "steady_queue.errors.TaskCancelled"


def state(result: TaskResult[Any]) -> TaskState:
    assert isinstance(result, SteadyQueueResult)
    return result.state


async def nothing_is_left(alias: str) -> None:
    async def settled() -> bool:
        return await in_thread(count, alias, "claimedexecution") == 0

    await until(settled)
    assert await in_thread(count, alias, "cancellation") == 0


async def test_a_running_async_task_is_cancelled_and_no_other(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=5), events=emitted):
        victim, other = await enqueue_each(recording.awaits_event, ["victim", "other"])
        await until(lambda: len(task_record.began) == 2)
        assert await actions.acancel(victim, by="Ada", reason="not needed") is CancelOutcome.REQUESTED
        await wait_for_results(victim)
        assert (state(victim), victim.attempts) == (TaskState.CANCELLED, 1)
        assert error_of(victim) == CANCELLED
        assert "cancelled by Ada: not needed" in victim.errors[0].traceback
        assert "awaits_event" in victim.errors[0].traceback  # where it was cancelled
        task_record.wake_event.set()
        assert await values(other) == ["other"]
        assert await victim.acancel() is CancelOutcome.ALREADY_ENDED  # type: ignore[attr-defined]
    assert [event.error for event in emitted.of(JobCancelled)] == ["cancelled by Ada: not needed"]
    assert not emitted.of(JobFailed)
    await nothing_is_left(database)


@pytest.mark.only_on("postgres")
async def test_a_notification_cancels_a_task_within_a_second(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another connection: the process does not learn of it by its own call."""
    async with running(worker(coroutines=5)) as process:
        (victim,) = await enqueue_each(recording.awaits_event, ["victim"])
        await until(lambda: task_record.began == ["victim"] and process.services.is_listening())
        monkeypatch.setattr(process.services.cancel_wake_ups, "wake_from_any_thread", lambda: None)
        began = time.monotonic()
        await in_thread(actions.cancel, victim.id)
        await until(lambda: task_record.running["async"] == 0)
        assert time.monotonic() - began < cancellations.LISTENING_POLL_SECONDS / 2
        await wait_for_results(victim)


async def test_without_notifications_requests_are_polled(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "notify", False)
    async with running(worker(coroutines=5)) as process:
        assert process.services.listener is None
        (victim,) = await enqueue_each(recording.awaits_event, ["victim"])
        await until(lambda: task_record.began == ["victim"])
        from steady_queue.db import notify

        monkeypatch.setattr(notify, "_wake_locally", lambda *_: None)
        await in_thread(actions.cancel, victim.id)
        await wait_for_results(victim)
        assert state(victim) is TaskState.CANCELLED


async def test_a_function_in_a_thread_sees_that_it_is_cancelled(database: str) -> None:
    async with running(worker(threads=3)):
        results = [
            await cancelled.looks_from_time_to_time.aenqueue(how, how) for how in ("raises", "snoozes", "returns")
        ]
        await until(lambda: len(task_record.began) == 3)
        assert await actions.acancel_many(results, by="Ada") == [result.id for result in results]
        raised, snoozed, returned = await wait_for_results(*results)
        assert state(raised) is state(snoozed) is TaskState.CANCELLED
        assert error_of(raised) == error_of(snoozed) == CANCELLED
        # A task that returns has finished.
        assert returned.return_value == "finished all the same"


async def test_what_a_cancelled_task_does_decides_how_it_ends(database: str) -> None:
    async with running(worker(coroutines=9)):
        returns = await cancelled.cleans_up.aenqueue(1, "returns")
        raises = await cancelled.cleans_up.aenqueue(2, "raises")
        shows = await cancelled.shows_request.aenqueue(3)
        await until(lambda: len(task_record.began) == 3)
        assert await actions.acancel_where("running", by="Ada", reason="why not") == 3
        assert await values(returns, shows) == ["finished all the same", ["Ada", "why not"]]
        await wait_for_results(raises)
        assert state(raises) is TaskState.CANCELLED
        assert error_of(raises) == CANCELLED
        assert "the clean-up failed" in raises.errors[0].traceback


async def test_a_coroutine_that_swallows_its_cancellation_holds_up_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancellations, "CANCEL_AGAIN_SECONDS", 0.02)
    async with running(worker(coroutines=2)):
        stubborn = await misbehaving.swallows_cancellation.aenqueue("stubborn")
        (victim,) = await enqueue_each(recording.awaits_event, ["victim"])
        await until(lambda: len(task_record.began) == 2)
        await actions.acancel(stubborn)
        await until(lambda: task_record.runs["asked to stop"] >= 3)
        await actions.acancel(victim)
        await wait_for_results(victim)
        assert state(victim) is TaskState.CANCELLED
        task_record.gate.set()
        await wait_for_results(stubborn)
        assert stubborn.status == TaskResultStatus.SUCCESSFUL


async def test_what_was_claimed_ahead_ends_at_once_and_without_an_attempt(database: str) -> None:
    async with running(worker(threads=1)) as process:
        capacity = process.services.workers[0].capacity
        (first,) = await enqueue_each(recording.blocks, ["first"])
        await until(lambda: task_record.began == ["first"])
        # Claimed by hand: a worker claims ahead only after it has seen many short functions.
        waiting = await enqueue_each(recording.blocks, ["second", "third"])
        capacity._start_long_task_timer = lambda: None  # type: ignore[method-assign]
        await _claim_two_more(process)
        assert await actions.acancel(waiting[0]) is CancelOutcome.REQUESTED
        await wait_for_results(waiting[0])
        assert (state(waiting[0]), waiting[0].attempts, waiting[0].worker_ids) == (TaskState.CANCELLED, 0, [])
        task_record.gate.set()
        assert await values(first, waiting[1]) == ["first", "third"]
        assert task_record.began == ["first", "third"]
    await nothing_is_left(database)


async def _claim_two_more(process: Any) -> None:
    from steady_queue.store.job import Lane
    from steady_queue.store.operations.claim import ClaimRequest, claim_from_all

    async with process.services.claims.lock:
        request = ClaimRequest(process.id, Lane.THREAD, 2)
        taken = await process.services.hot.run(claim_from_all(process.services.hot.sql, request))
        assert len(taken.claims) == 2
        process.services.workers[0].capacity.start(taken.claims)


async def test_an_async_task_that_has_not_begun_has_no_attempt(database: str) -> None:
    """Cancelled in the same turn of the event loop in which it was started."""
    async with running(worker(coroutines=5)) as process:
        capacity = process.services.workers[0].capacity
        start = capacity.start

        def start_and_cancel(claims: Any) -> None:
            claims = list(claims)
            start(claims)
            from steady_queue.store.job import CancelRequest

            assert capacity.cancel({claim.claim_id: CancelRequest("Ada") for claim in claims}) == []

        capacity.start = start_and_cancel  # type: ignore[method-assign]
        (result,) = await wait_for_results(await recording.awaits_event.aenqueue("never"))
        assert (state(result), result.attempts) == (TaskState.CANCELLED, 0)
        assert not task_record.began


@pytest.mark.parametrize("task", [recording.awaits_thread, recording.awaits_thread_in_child])
async def test_orm_calls_of_a_cancelled_task_are_waited_for(database: str, task: Task[..., Any]) -> None:
    async with running(worker(coroutines=5)):
        result = await task.aenqueue("behind")
        await until(lambda: task_record.running["behind"] == 1)
        await actions.acancel(result)
        await until(lambda: task_record.runs["asked to stop"] == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert await in_thread(counts, database) == {"claimed": 1}
        task_record.gate.set()
        await wait_for_results(result)
        assert state(result) is TaskState.CANCELLED


async def test_a_process_without_tasks_reads_no_requests(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def find(*args: Any) -> Any:
        looked.append(args)
        return find_requests(*args)

    monkeypatch.setattr(cancellations, "find_requests", find)
    monkeypatch.setattr(cancellations, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(cancellations, "LISTENING_POLL_SECONDS", 0.01)
    async with running(worker(coroutines=5)) as process:
        await until(process.ready.is_set)
        turns = 0
        real = process.services.cancellations._look

        async def look(is_woken: bool) -> None:
            nonlocal turns
            turns += 1
            await real(is_woken)

        process.services.cancellations._look = look  # type: ignore[method-assign]
        await until(lambda: turns > 5)
        assert not looked
        await enqueue_each(recording.awaits_event, ["one"])
        await until(lambda: bool(looked))
        task_record.wake_event.set()
