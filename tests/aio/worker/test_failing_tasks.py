"""Bad tasks and bad rows: each costs its own job, and nothing else."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import tests.shop
from steady_queue.aio import running
from steady_queue.arguments import dumps
from steady_queue.events import JobFailed, JobUnrunnable
from steady_queue.events.tracebacks import MESSAGE_LENGTH, TRACEBACK_LENGTH
from steady_queue.store.job import Lane
from tests.shop.tasks import add, greet
from tests.support.databases.tables import count, counts, query, row
from tests.support.runtime import Heard, aside, ended, error_of, until, values, worker
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.tasks.recording import book

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.store.job import NewJob

pytestmark = pytest.mark.anyio

BOTH = [recording.misbehaves, recording.misbehaves_in_thread]
RAISED = {
    "exits": "builtins.SystemExit",
    "interrupts": "builtins.KeyboardInterrupt",
    "cancels": "asyncio.exceptions.CancelledError",
    "recurses": "builtins.RecursionError",
    "cannot be shown": "tests.support.tasks.recording.Unspeakable",
    "generator exit": "builtins.GeneratorExit",
    "NUL": "builtins.ValueError",
    "surrogate": "builtins.ValueError",
    "not JSON": "builtins.TypeError",
    "not a number": "builtins.ValueError",
}


async def still_works() -> None:
    """Both lanes, each with a single slot, run what comes after."""
    assert await values(await add.aenqueue(1), await greet.aenqueue("Ada")) == [1, "Hello, Ada!"]


@pytest.mark.parametrize("task", BOTH)
async def test_whatever_a_task_raises_fails_its_own_job_alone(database: str, task: Task[..., Any]) -> None:
    async with running(worker(coroutines=1, threads=1)) as process:
        results = [await task.aenqueue(how) for how in RAISED]
        await ended(*results)
        assert [error_of(result) for result in results] == list(RAISED.values())
        assert all(result.worker_ids == [process.name] for result in results)
        await still_works()
    assert await aside(counts, database) == {"failed": len(RAISED)}


async def test_a_task_that_lets_a_stop_iteration_out_has_failed_wherever_it_runs(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        results = [await task.aenqueue("stops an iteration") for task in BOTH]
        await ended(*results)
        given = {
            "task_path": recording.misbehaves_in_thread.module_path,
            "arguments": dumps(["stops an iteration"], {}),
        }
        was_async = job(lane=Lane.ASYNC, **given)
        assert await failures(database, was_async, before=2) == ["builtins.RuntimeError"]
        await still_works()
    assert [error_of(result) for result in results] == ["builtins.RuntimeError", "builtins.StopIteration"]


async def test_a_message_that_no_database_takes_is_stored_with_escapes(database: str) -> None:
    texts = {"NUL": "before\\x00after", "surrogate": "before\\ud800after", "cancels": "made up"}
    async with running(worker()):
        results = await ended(*[await task.aenqueue(how) for task in BOTH for how in texts])
    for result, text in zip(results, [*texts.values()] * 2, strict=True):
        failed = await aside(row, database, "failedexecution", result.id)
        assert failed is not None
        assert failed["message"] == text
        assert text in result.errors[0].traceback


async def test_a_message_of_50_megabytes_is_cut(database: str) -> None:
    async with running(worker()):
        results = await ended(*[await task.aenqueue("huge") for task in BOTH])
        await still_works()
    for result in results:
        failed = await aside(row, database, "failedexecution", result.id)
        assert failed is not None
        assert MESSAGE_LENGTH <= len(failed["message"]) < MESSAGE_LENGTH + 100
        assert len(result.errors[0].traceback) < TRACEBACK_LENGTH + 100


async def test_a_class_with_an_endless_name_is_named_as_far_as_it_goes(database: str) -> None:
    async with running(worker()):
        (result,) = await ended(await recording.misbehaves.aenqueue("long name"))
    failed = await aside(row, database, "failedexecution", result.id)
    assert failed is not None
    assert failed["exception_class"].startswith("tests.support.tasks.recording.EndlessEndless")
    assert failed["message"] == "short"


async def test_a_group_of_exceptions_is_told_with_each_of_them(database: str) -> None:
    async with running(worker()):
        results = await ended(*[await task.aenqueue("group") for task in BOTH])
    for result in results:
        assert error_of(result) == "builtins.BaseExceptionGroup"
        assert "ValueError: before\\x00after" in result.errors[0].traceback
        assert "KeyboardInterrupt" in result.errors[0].traceback


async def test_a_result_of_awkward_text_comes_back_as_it_was(database: str) -> None:
    texts = {"NUL in result": "before\x00after", "surrogate in result": "before\ud800after"}
    async with running(worker()):
        results = [await task.aenqueue(how) for task in BOTH for how in texts]
        assert await values(*results) == [*texts.values(), *texts.values()]


async def test_a_result_larger_than_the_server_takes_fails_that_job_alone(database: str) -> None:
    async with running(worker()):
        results: list[TaskResult[Any]] = [
            await recording.returns_much.aenqueue(20_000_000),
            await recording.rests.aenqueue("small"),
        ]
        large, small = await ended(*results)
        await still_works()
    assert small.return_value == "small"
    if database == "mariadb":  # the others take it
        assert error_of(large) == "steady_queue.errors.StoreDataError"
    else:
        assert large.return_value == "x" * 20_000_000


async def test_an_async_task_that_cancels_itself_or_is_cancelled_by_its_child_has_failed(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        results = await ended(*[await recording.is_cancelled.aenqueue(by) for by in ("itself", "its child")])
        await still_works()
    assert [error_of(result) for result in results] == ["asyncio.exceptions.CancelledError"] * 2


async def test_a_task_that_asks_for_its_own_cancellation_too_late_has_succeeded(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        assert await values(await recording.is_cancelled.aenqueue("itself, too late")) == ["itself, too late"]
        await still_works()


async def test_asyncio_tasks_that_a_task_leaves_behind_harm_nobody(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        assert await values(await recording.leaves_stray.aenqueue("stray")) == ["stray"]
        assert book.now["stray"] == 1
        await still_works()
    book.gate.set()
    await until(lambda: not book.now["stray"])


PATHS = {
    "of no module": "nowhere.at.all",
    "of a module outside the apps": "this.antigravity",
    "of no task": "tests.support.tasks.recording.not_a_task",
    "of nothing": "tests.shop.tasks.missing",
    "of a missing module of an app": "tests.shop.missing.task",
    "without a module": "task",
    "empty": "",
}


def rows(**options: Any) -> list[NewJob]:
    """A job with these options for each lane."""
    return [job(**{"lane": lane, "arguments": dumps([], {}), **options}) for lane in (Lane.ASYNC, Lane.THREAD)]


async def failures(alias: str, *jobs: NewJob, before: int = 0) -> list[str]:
    """The exception of each of the jobs, when all of them have failed."""

    def errors() -> list[str]:
        return [found["exception_class"] for one in jobs if (found := row(alias, "failedexecution", one.id))]

    async def all_failed() -> bool:
        return await aside(count, alias, "failedexecution") == before + len(jobs)

    await aside(SyncStore(alias).enqueue, *jobs)
    await until(all_failed, patience=10)
    return await aside(errors)


async def test_a_path_that_leads_to_no_task_fails_its_job(database: str) -> None:
    jobs = [one for path in PATHS.values() for one in rows(task_path=path)]
    heard = Heard()
    async with running(worker(coroutines=1, threads=1), events=heard):
        assert set(await failures(database, *jobs)) == {"steady_queue.errors.UnknownTaskError"}
        await still_works()
    # Nobody else could tell: the framework's signals need a task.
    assert {event.job_id for event in heard.of(JobUnrunnable)} == {one.id for one in jobs}
    assert {event.level for event in heard.of(JobFailed)} == {logging.ERROR}


#: Neither JSON, nor an envelope, nor one of a version that is known, nor one that holds arguments.
ENVELOPES = [
    "",
    "nonsense",
    "null",
    "[]",
    "{}",
    "[99, [], {}]",
    "[1, {}, []]",
    '[1, [{"$": "what"}], {}]',
    "[" * 100_000,
]


async def test_arguments_that_cannot_be_decoded_fail_their_job(database: str) -> None:
    jobs = [one for text in ENVELOPES for one in rows(arguments=text)]
    async with running(worker(coroutines=1, threads=1)):
        assert set(await failures(database, *jobs)) == {"steady_queue.errors.DeserializationError"}
        await still_works()


async def test_headers_that_make_no_sense_fail_their_job(database: str) -> None:
    jobs = [
        one for text in ("nonsense", '{"timezone": "Nowhere/At all"}', '{"locale": 5}') for one in rows(headers=text)
    ]
    async with running(worker(coroutines=1, threads=1)):
        await failures(database, *jobs)
        await still_works()


async def test_wrong_arguments_fail_their_job(database: str) -> None:
    jobs = rows(arguments=dumps([1, 2, 3], {"unknown": 1}))
    async with running(worker(coroutines=1, threads=1)):
        assert await failures(database, *jobs) == ["builtins.TypeError"] * 2
        await still_works()


async def test_a_backend_that_left_the_settings_fails_its_jobs(database: str) -> None:
    async with running(worker(coroutines=1, threads=1)):
        errors = await failures(database, *rows(backend="gone"))
        assert {error.rpartition(".")[2] for error in errors} <= {"InvalidTaskBackend", "InvalidTaskBackendError"}
        await still_works()


@contextmanager
def module(directory: Path, name: str, text: str) -> Iterator[str]:
    """A module of an installed app that has not been imported yet."""
    (directory / f"{name}.py").write_text(text)
    tests.shop.__path__.append(str(directory))
    try:
        yield f"tests.shop.{name}"
    finally:
        tests.shop.__path__.remove(str(directory))


BROKEN = {
    "raises": "raise LookupError('no')",
    "misses": "raise ImportError('no')",
    "garbled": "1 +",
    "exits": "raise SystemExit",
}


async def test_a_module_that_cannot_be_imported_fails_its_jobs(database: str, tmp_path: Path) -> None:
    with ExitStack() as modules:
        names = [modules.enter_context(module(tmp_path, name, text)) for name, text in BROKEN.items()]
        async with running(worker(coroutines=1, threads=1)):
            await failures(database, *[one for name in names for one in rows(task_path=f"{name}.task")])
            await still_works()


async def test_nothing_that_a_row_names_is_imported_from_outside_the_apps(database: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "outsider.py").write_text(f"open({str(canary)!r}, 'w')")
    sys.path.append(str(tmp_path))
    try:
        jobs = [one for path in ("outsider.run", "os.system", "subprocess.Popen") for one in rows(task_path=path)]
        async with running(worker()):
            assert set(await failures(database, *jobs)) == {"steady_queue.errors.UnknownTaskError"}
    finally:
        sys.path.remove(str(tmp_path))
    assert not canary.exists()
    assert "outsider" not in sys.modules


async def test_rows_with_any_queue_name_and_priority_are_run(database: str) -> None:
    names = ("", "a%_*", "😀", "x' OR 1=1 --")
    odd = [one for name in names for at in (-32768, 32767) for one in rows(queue_name=name, priority=at)]
    async with running(worker()):
        await aside(SyncStore(database).enqueue, *odd)
        await until(lambda: all_finished(database, len(odd)))


@pytest.mark.parametrize("lane", [2, 7, -1])
async def test_a_row_with_a_lane_that_the_worker_has_not_fails(database: str, lane: int) -> None:
    result = await recording.rests.aenqueue("odd")
    await aside(query, database, f"UPDATE steady_queue_job SET lane = {lane}")
    async with running(worker()):
        await ended(result)
        await still_works()
    assert error_of(result) == "steady_queue.errors.ConfigurationError"


async def test_a_ready_row_without_a_job_harms_nobody(database: str) -> None:
    nobody = job(priority=100)
    insert = "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (?, ?, ?, ?)"
    await aside(lambda: SyncStore(database).ask(insert, nobody.id, "default", nobody.lane, nobody.priority))
    async with running(worker(coroutines=1, threads=1)) as process:
        await still_works()
        await process.services.maintenance.turn()
        await still_works()
        assert await aside(count, database, "claimedexecution") == 0


async def all_finished(alias: str, number: int) -> bool:
    done = await aside(query, alias, "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL")
    return bool(done == [(number,)])


async def test_a_transaction_left_open_in_a_thread_is_undone_before_the_next_task(database: str) -> None:
    async with running(worker(threads=1)):
        await ended(await recording.leaves_transaction_open.aenqueue())
        assert await values(await recording.is_in_transaction.aenqueue()) == [False]
        await still_works()
    assert await aside(_customers, database) == 0


async def test_a_transaction_left_open_by_an_async_task_is_undone_before_the_next(database: str) -> None:
    async with running(worker(coroutines=1, orm_lanes=1)):
        await ended(await recording.leaves_transaction_open_async.aenqueue())
        assert await values(await recording.is_in_transaction_async.aenqueue()) == [False]
    assert await aside(_customers, database) == 0


async def test_a_task_that_closes_its_connections_leaves_the_next_one_working_ones(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        for task in (recording.closes_connections, recording.closes_connections_async):
            assert await values(await task.aenqueue(), await task.aenqueue()) == [0, 0]


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_connection_that_the_server_ends_costs_the_task_that_uses_it_and_no_other(database: str) -> None:
    async with running(worker(coroutines=1, threads=1, orm_lanes=1)):
        for breaks, counts_rows in (
            (recording.breaks_connection, recording.closes_connections),
            (recording.breaks_connection_async, recording.closes_connections_async),
        ):
            broken, whole = await ended(await breaks.aenqueue(), await counts_rows.aenqueue())
            assert error_of(broken) == "django.db.utils.OperationalError"
            assert whole.return_value == 0


def _customers(alias: str) -> int:
    return tests.shop.models.Customer.objects.using(alias).count()


async def test_a_subscriber_of_events_that_fails_harms_nobody(database: str) -> None:
    def refuse(event: object) -> None:
        raise LookupError

    heard = Heard()
    heard.add(refuse)
    async with running(worker(), events=heard):
        await still_works()
    assert heard.told
