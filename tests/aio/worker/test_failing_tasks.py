"""What tasks raise, return and leave behind affects their own job only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import tests.shop
from steady_queue.aio import running
from steady_queue.arguments import dumps
from steady_queue.events.tracebacks import MESSAGE_LENGTH, TRACEBACK_LENGTH
from steady_queue.store.job import Lane
from tests.aio.worker.helpers import failures, still_works
from tests.support.databases.tables import counts, row
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.store.jobs import job
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = pytest.mark.anyio

BOTH = [misbehaving.misbehaves, misbehaving.misbehaves_in_thread]
RAISED = {
    "exits": "builtins.SystemExit",
    "interrupts": "builtins.KeyboardInterrupt",
    "cancels": "asyncio.exceptions.CancelledError",
    "recurses": "builtins.RecursionError",
    "cannot be shown": "tests.support.tasks.misbehaving.ErrorWithoutText",
    "generator exit": "builtins.GeneratorExit",
    "NUL": "builtins.ValueError",
    "surrogate": "builtins.ValueError",
    "not JSON": "builtins.TypeError",
    "not a number": "builtins.ValueError",
}


@pytest.mark.parametrize("task", BOTH)
async def test_any_exception_of_a_task_fails_its_own_job_alone(database: str, task: Task[..., Any]) -> None:
    async with running(worker(coroutines=1, threads=1)) as process:
        results = [await task.aenqueue(how) for how in RAISED]
        await wait_for_results(*results)
        assert [error_of(result) for result in results] == list(RAISED.values())
        assert all(result.worker_ids == [process.name] for result in results)
        await still_works()
    assert await in_thread(counts, database) == {"failed": len(RAISED)}


async def test_a_task_that_raises_stop_iteration_has_failed_in_each_lane(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        results = [await task.aenqueue("stops an iteration") for task in BOTH]
        await wait_for_results(*results)
        given = {
            "task_path": misbehaving.misbehaves_in_thread.module_path,
            "arguments": dumps(["stops an iteration"], {}),
        }
        was_async = job(lane=Lane.ASYNC, **given)
        assert await failures(database, was_async, before=2) == ["builtins.RuntimeError"]
        await still_works()
    assert [error_of(result) for result in results] == ["builtins.RuntimeError", "builtins.StopIteration"]


async def test_a_message_that_no_database_stores_is_stored_with_escapes(database: str) -> None:
    texts = {"NUL": "before\\x00after", "surrogate": "before\\ud800after", "cancels": "made up"}
    async with running(worker()):
        results = await wait_for_results(*[await task.aenqueue(how) for task in BOTH for how in texts])
    for result, text in zip(results, [*texts.values()] * 2, strict=True):
        failed = await in_thread(row, database, "failedexecution", result.id)
        assert failed is not None
        assert failed["message"] == text
        assert text in result.errors[0].traceback


async def test_a_message_of_50_megabytes_is_cut(database: str) -> None:
    async with running(worker()):
        results = await wait_for_results(*[await task.aenqueue("huge") for task in BOTH])
        await still_works()
    for result in results:
        failed = await in_thread(row, database, "failedexecution", result.id)
        assert failed is not None
        assert MESSAGE_LENGTH <= len(failed["message"]) < MESSAGE_LENGTH + 100
        assert len(result.errors[0].traceback) < TRACEBACK_LENGTH + 100


async def test_a_very_long_class_name_is_stored_as_far_as_it_fits(database: str) -> None:
    async with running(worker()):
        (result,) = await wait_for_results(await misbehaving.misbehaves.aenqueue("long name"))
    failed = await in_thread(row, database, "failedexecution", result.id)
    assert failed is not None
    assert failed["exception_class"].startswith("tests.support.tasks.misbehaving.EndlessEndless")
    assert failed["message"] == "short"


async def test_a_group_of_exceptions_is_stored_with_each_of_them(database: str) -> None:
    async with running(worker()):
        results = await wait_for_results(*[await task.aenqueue("group") for task in BOTH])
    for result in results:
        assert error_of(result) == "builtins.BaseExceptionGroup"
        assert "ValueError: before\\x00after" in result.errors[0].traceback
        assert "KeyboardInterrupt" in result.errors[0].traceback


async def test_a_result_with_nul_or_surrogates_is_returned_unchanged(database: str) -> None:
    texts = {"NUL in result": "before\x00after", "surrogate in result": "before\ud800after"}
    async with running(worker()):
        results = [await task.aenqueue(how) for task in BOTH for how in texts]
        assert await values(*results) == [*texts.values(), *texts.values()]


async def test_a_result_larger_than_the_server_accepts_fails_that_job_alone(database: str) -> None:
    async with running(worker()):
        results: list[TaskResult[Any]] = [
            await misbehaving.returns_much.aenqueue(20_000_000),
            await recording.rests.aenqueue("small"),
        ]
        large, small = await wait_for_results(*results)
        await still_works()
    assert small.return_value == "small"
    if database == "mariadb":  # the other databases accept it
        assert error_of(large) == "steady_queue.errors.StoreDataError"
    else:
        assert large.return_value == "x" * 20_000_000


async def test_an_async_task_that_cancels_itself_or_is_cancelled_by_its_child_has_failed(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        results = await wait_for_results(
            *[await misbehaving.is_cancelled.aenqueue(by) for by in ("itself", "its child")]
        )
        await still_works()
    assert [error_of(result) for result in results] == ["asyncio.exceptions.CancelledError"] * 2


async def test_a_task_that_asks_for_its_own_cancellation_too_late_has_succeeded(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        assert await values(await misbehaving.is_cancelled.aenqueue("itself, too late")) == ["itself, too late"]
        await still_works()


async def test_asyncio_tasks_that_a_task_leaves_behind_do_no_harm(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        assert await values(await misbehaving.leaves_stray.aenqueue("stray")) == ["stray"]
        assert task_record.running["stray"] == 1
        await still_works()
    task_record.gate.set()
    await until(lambda: not task_record.running["stray"])


async def test_a_transaction_left_open_in_a_thread_is_undone_before_the_next_task(database: str) -> None:
    async with running(worker(threads=1)):
        await wait_for_results(await misbehaving.leaves_transaction_open.aenqueue())
        assert await values(await misbehaving.is_in_transaction.aenqueue()) == [False]
        await still_works()
    assert await in_thread(_customers, database) == 0


async def test_a_transaction_left_open_by_an_async_task_is_undone_before_the_next(database: str) -> None:
    async with running(worker(coroutines=1, orm_lanes=1)):
        await wait_for_results(await misbehaving.leaves_transaction_open_async.aenqueue())
        assert await values(await misbehaving.is_in_transaction_async.aenqueue()) == [False]
    assert await in_thread(_customers, database) == 0


async def test_after_a_task_that_closes_its_connections_the_next_task_has_working_ones(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        for task in (misbehaving.closes_connections, misbehaving.closes_connections_async):
            assert await values(await task.aenqueue(), await task.aenqueue()) == [0, 0]


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_connection_that_the_server_ends_fails_the_task_that_uses_it_and_no_other(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        for breaks, counts_rows in (
            (misbehaving.breaks_connection, misbehaving.closes_connections),
            (misbehaving.breaks_connection_async, misbehaving.closes_connections_async),
        ):
            broken, whole = await wait_for_results(await breaks.aenqueue(), await counts_rows.aenqueue())
            assert error_of(broken) == "django.db.utils.OperationalError"
            assert whole.return_value == 0


def _customers(alias: str) -> int:
    return tests.shop.models.Customer.objects.using(alias).count()


async def test_a_subscriber_of_events_that_fails_does_no_harm(database: str) -> None:
    def refuse(event: object) -> None:
        raise LookupError

    emitted = EmittedEvents()
    emitted.add(refuse)
    async with running(worker(), events=emitted):
        await still_works()
    assert emitted.all
