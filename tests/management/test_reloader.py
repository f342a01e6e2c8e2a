"""`--reload`: the command starts again when the code changes, and lets running tasks finish before that."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.databases.tables import count, counts
from tests.support.processes.commands import read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, rows
from tests.support.processes.projects import Project, program
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, in_thread, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


async def test_a_change_lets_tasks_finish_and_a_broken_file_waits_for_the_next(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--async", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await wait_for_output(process, "began")
        project.write("version 2")
        assert str(project.app / "tasks.py") in await wait_for_output(process, "changed: restarting")
        await wait_for_output(process, "is stopping: 1 task still running")
        project.done.touch()
        await wait_for_output(process, "repaired by version 1")
        await wait_for_output(process, "started on")
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 2")

        (project.app / "tasks.py").write_text("def broken(:\n")
        await wait_for_output(process, "SyntaxError")
        await wait_for_output(process, "the command exited with status 1; it restarts when the code changes")
        project.write("version 3")
        await project.enqueue("wash")
        await wait_for_output(process, "washed by version 3")

        (worker,) = [row.pid for row in await in_thread(rows, database)]
        assert worker != process.pid
        await stop_command(process)
    assert not exists(worker)
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


async def test_a_command_that_is_signalled_while_it_restarts_stops(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--only-work", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await wait_for_output(process, "began")
        children = [row.pid for row in await in_thread(rows, database)]
        assert len(children) == 2
        project.write("version 2")
        await wait_for_output(process, "is stopping: 1 task still running")
        process.send_signal(signal.SIGINT)
        project.done.touch()
        printed = await read_output(process)
    assert "repaired by version 1" in printed
    assert "started" not in printed
    assert not any(map(exists, children))
    assert await in_thread(count, database, "process") == 0


async def test_its_child_stops_when_it_is_killed(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--async", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await wait_for_output(process, "began")
        (worker,) = [row.pid for row in await in_thread(rows, database)]
        process.kill()
        try:
            async with asyncio.timeout(WAIT_TIMEOUT_SECONDS):
                await wait_for_output(process, "is stopping: 1 task still running")
            project.done.touch()
            assert "repaired by version 1" in await read_output(process, code=-signal.SIGKILL)
            await until(lambda: not exists(worker), "it stays")
        finally:
            if exists(worker):
                os.kill(worker, signal.SIGKILL)
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


async def test_its_status_is_that_of_the_command(database: str, tmp_path: Path) -> None:
    Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--threads=many", "--reload", cwd=tmp_path) as process:
        await wait_for_output(process, "--threads must be an integer, not 'many'")
        await wait_for_output(process, "the command exited with status 1")
        process.send_signal(signal.SIGTERM)
        await read_output(process, code=1)
