"""Jobs that cannot run as stored: paths, arguments, headers, backends, modules, lanes. Each fails alone."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import tests.shop
from steady_queue.aio import running
from steady_queue.arguments import dumps
from steady_queue.events import JobFailed, JobUnrunnable
from tests.aio.worker.helpers import failures, rows, still_works
from tests.support.databases.tables import count, query
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, wait_for_results, worker
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.anyio


PATHS = {
    "of no module": "nowhere.at.all",
    "of a module outside the apps": "this.antigravity",
    "of no task": "tests.support.tasks.misbehaving.not_a_task",
    "of nothing": "tests.shop.tasks.missing",
    "of a missing module of an app": "tests.shop.missing.task",
    "without a module": "task",
    "empty": "",
}


async def test_a_path_that_leads_to_no_task_fails_its_job(database: str) -> None:
    jobs = [one for path in PATHS.values() for one in rows(task_path=path)]
    emitted = EmittedEvents()
    async with running(worker(coroutines=1, threads=1), events=emitted):
        assert set(await failures(database, *jobs)) == {"steady_queue.errors.UnknownTaskError"}
        await still_works()
    # Only the event reports it: the framework's signals need a task.
    assert {event.job_id for event in emitted.of(JobUnrunnable)} == {one.id for one in jobs}
    assert {event.level for event in emitted.of(JobFailed)} == {logging.ERROR}


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
        await in_thread(SyncStore(database).enqueue, *odd)
        await until(lambda: all_finished(database, len(odd)))


@pytest.mark.parametrize("lane", [2, 7, -1])
async def test_a_row_with_an_unknown_lane_fails(database: str, lane: int) -> None:
    result = await recording.rests.aenqueue("odd")
    await in_thread(query, database, f"UPDATE steady_queue_job SET lane = {lane}")
    async with running(worker()):
        await wait_for_results(result)
        await still_works()
    assert error_of(result) == "steady_queue.errors.ConfigurationError"


async def test_a_ready_row_without_a_job_does_no_harm(database: str) -> None:
    missing = job(priority=100)
    insert = "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (?, ?, ?, ?)"
    await in_thread(lambda: SyncStore(database).ask(insert, missing.id, "default", missing.lane, missing.priority))
    async with running(worker(coroutines=1, threads=1)) as process:
        await still_works()
        await process.services.maintenance.turn()
        await still_works()
        assert await in_thread(count, database, "claimedexecution") == 0


async def all_finished(alias: str, number: int) -> bool:
    done = await in_thread(query, alias, "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL")
    return bool(done == [(number,)])
