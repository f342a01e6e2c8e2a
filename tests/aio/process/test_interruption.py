"""Interruption: a task sees that its process stops, saves where it is, and continues in another process."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import SteadyQueueResult
from steady_queue.aio import running
from tests.support.processes.commands import command, stop_command
from tests.support.runtime import in_thread, until, wait_for_results, worker
from tests.support.tasks import reporting
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from pathlib import Path

    from steady_queue.aio import Process
    from steady_queue.jobs.compat import Task, TaskResult

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]

IMPORT_TASKS = "import django; django.setup(); import tests.support.tasks.reporting"

both_lanes = pytest.mark.parametrize(
    "task", [reporting.counts_until_stopped, reporting.counts_until_stopped_in_thread], ids=["loop", "thread"]
)


async def current(result: TaskResult[Any]) -> SteadyQueueResult[Any]:
    await result.arefresh()
    assert isinstance(result, SteadyQueueResult)
    return result


def has_begun(row: int) -> bool:
    return row in task_record.began


def has_rows(file: Path, count: int) -> bool:
    return file.exists() and len(file.read_text().split()) == count


@both_lanes
async def test_a_task_that_its_process_interrupts_continues_where_it_stopped_and_spends_no_attempt(
    database: str, task: Task[..., Any]
) -> None:
    result = await task.aenqueue(3)
    for row in range(3):
        async with running(worker()) as process:
            await until(partial(has_begun, row))
            process.stop(20)
    # The process has stopped after each row, the third time after the last.
    found = await current(result)
    assert task_record.began == [0, 1, 2]
    assert (found.state, found.attempts, found.errors) == ("ready", 0, [])
    assert [line.message for line in found.log] == [f"interrupted after row {row}" for row in range(3)]
    async with running(worker()):
        await wait_for_results(result)
    assert (result.return_value, result.attempts) == ([], 1)


def recycle(process: Process) -> None:
    process.shutdown.recycle()


@pytest.mark.usually_on("sqlite")
@both_lanes
async def test_a_task_sees_that_its_process_is_replaced(database: str, task: Task[..., Any]) -> None:
    result = await task.aenqueue(1)
    async with running(worker()) as process:
        await until(lambda: 0 in task_record.began)
        recycle(process)
    assert (await current(result)).state == "ready"


@pytest.mark.usually_on("sqlite")
async def test_a_function_that_became_async_can_wait_for_the_stop_in_its_thread(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await reporting.counts_until_stopped_in_thread.aenqueue(1)
    monkeypatch.setattr(reporting, "counts_until_stopped_in_thread", reporting.counts_until_stopped)
    async with running(worker()) as process:
        from steady_queue.jobs.registry import registry

        monkeypatch.setattr(registry, "resolve", lambda path: reporting.counts_until_stopped)
        await until(lambda: 0 in task_record.began)
        process.stop(20)
    assert (await current(result)).state == "ready"


async def test_long_imports_that_are_stopped_by_term_continue_in_another_process(database: str, tmp_path: Path) -> None:
    files = [tmp_path / "loop", tmp_path / "thread"]
    results = [
        await reporting.imports_rows.aenqueue(str(files[0]), 3),
        await reporting.imports_rows_in_thread.aenqueue(str(files[1]), 3),
    ]
    with command(database, "--async", shutdown_timeout_seconds=20, setup=IMPORT_TASKS) as process:
        for file in files:
            await until(partial(has_rows, file, 1))
        await stop_command(process, signal.SIGTERM)
    for result in results:
        found = await current(result)
        assert (found.state, found.attempts) == ("ready", 0)
        assert found.progress is not None
        assert found.progress.done == 1
    for file in files:
        await in_thread(file.with_suffix(".go").touch)
    with command(database, "--async", setup=IMPORT_TASKS) as process:
        await wait_for_results(*results)
        await stop_command(process)
    assert [(result.return_value, result.attempts) for result in results] == [(3, 1), (3, 1)]
    # Each row exactly once, in two processes.
    assert [file.read_text().split() for file in files] == [["0", "1", "2"]] * 2
