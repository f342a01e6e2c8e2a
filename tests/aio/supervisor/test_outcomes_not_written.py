"""A task that has ended is never run again, even if its outcome could not be written."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.shop import tasks
from tests.support.databases.tables import count, counts
from tests.support.processes.commands import command, read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import wait_for_worker
from tests.support.runtime import error_of, in_thread, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.proxy import Proxy

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be stopped
async def test_tasks_that_ended_while_the_database_was_away_are_failed_and_not_released(
    database: str, proxy: Proxy, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    finished = [await task.aenqueue(str(path)) for task in (tasks.awaits_file, tasks.blocks_until_file)]
    cut_off = await tasks.never_ends.aenqueue()
    with command(database, "--only-work", port=proxy.port) as process:
        for _ in range(3):
            await wait_for_output(process, "began")
        proxy.go()
        path.touch()
        process.send_signal(signal.SIGTERM)
        await wait_for_output(process, "could not be written before the process ended")
        proxy.come_back()
        await read_output(process)
    await wait_for_results(*finished)
    assert {error_of(result) for result in finished} == {"steady_queue.processes.ProcessExitError"}
    await cut_off.arefresh()
    assert not cut_off.is_finished  # it was running: released
    assert await in_thread(counts, database) == {"failed": 2, "ready": 1}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_recycling_process_waits_for_the_database_without_a_deadline(
    database: str, proxy: Proxy, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    last = [await task.aenqueue(str(path)) for task in (tasks.awaits_file, tasks.blocks_until_file)]
    with command(database, "--only-work", "--max-tasks", "1", port=proxy.port, setup=WITHOUT_FLUSH_TIME) as process:
        await wait_for_output(process, "began")
        await wait_for_output(process, "began")
        await tasks.anoop.aenqueue()
        await wait_for_output(process, "is stopping: 2 tasks still running")
        proxy.go()
        path.touch()
        await wait_for_output(process, "settler: the database is unavailable")
        proxy.come_back()
        assert await values(*last) == ["done"] * 2
        assert "could not be written" not in await stop_command(process)
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


#: Setup of a manage.py whose children, when they stop, do not wait for the database.
WITHOUT_FLUSH_TIME = """
import os
if "STEADY_QUEUE_CHILD" in os.environ:
    import django
    django.setup()
    from steady_queue.aio.process import deadlines
    deadlines.FLUSH_SECONDS = 0
"""


async def test_a_sync_task_that_ended_while_the_loop_was_blocked_is_not_released(database: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    finished = await tasks.blocks_until_file.aenqueue(str(path))
    with command(database, "--only-work") as process:
        await wait_for_output(process, "began")
        await tasks.blocks_the_loop.aenqueue()
        await wait_for_output(process, "began")
        path.touch()
        await wait_for_output(process, "the event loop is blocked")
        await stop_command(process)
    await finished.arefresh()
    assert await in_thread(counts, database) == {"failed": 1, "ready": 1}
    assert error_of(finished) == "steady_queue.processes.ProcessExitError"


@pytest.mark.only_on("sqlite")
async def test_tasks_of_a_process_that_could_only_be_killed_are_released(database: str, tmp_path: Path) -> None:
    """While a task holds the interpreter's lock, nothing else runs in the process, not even its shutdown."""
    first, then = tmp_path / "first", tmp_path / "then"
    finished = await tasks.awaits_file.aenqueue(str(first))
    await tasks.never_ends.aenqueue()
    await tasks.holds_the_lock.aenqueue(str(then))
    with command(database, "--only-work", shutdown_timeout_seconds=3) as process:
        for _ in range(3):
            await wait_for_output(process, "began")
        process.send_signal(signal.SIGTERM)
        await wait_for_output(process, "is stopping: 3 tasks")
        first.touch()
        assert await values(finished) == ["done"]
        then.touch()
        assert "was killed by SIGKILL" in await read_output(process)
    assert await in_thread(counts, database) == {"ready": 2}


@pytest.mark.only_on("sqlite")
async def test_a_process_forked_by_a_task_ends_at_its_first_term_and_reports_nothing(database: str) -> None:
    with command(database, "--only-work") as process:
        assert await values(await tasks.forks_and_terminates.aenqueue()) == [-signal.SIGTERM]
        assert await values(await tasks.forks_and_terminates_at_once.aenqueue()) == [[-signal.SIGTERM] * 20]
        worker = await wait_for_worker(database)
        os.kill(worker, signal.SIGKILL)
        await wait_for_output(process, f"process {worker} (worker (*)) died")
        await stop_command(process)
