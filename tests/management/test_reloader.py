"""`--reload`: the command starts again when the code changes, and lets running tasks finish before that."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.databases.tables import count, counts
from tests.support.processes.commands import printed_by, prints, stopped
from tests.support.processes.process_rows import exists, rows
from tests.support.processes.projects import Project, program
from tests.support.runtime import PATIENCE, aside, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


async def test_a_change_lets_tasks_finish_and_a_broken_file_waits_for_the_next(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--async", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await prints(process, "began")
        project.write("version 2")
        assert str(project.app / "tasks.py") in await prints(process, "changed: restarting")
        await prints(process, "is stopping: 1 tasks still running")
        project.done.touch()
        await prints(process, "repaired by version 1")
        await prints(process, "started on")
        await project.enqueue("wash")
        await prints(process, "washed by version 2")

        (project.app / "tasks.py").write_text("def broken(:\n")
        await prints(process, "SyntaxError")
        await prints(process, "the command exited with status 1; it restarts when the code changes")
        project.write("version 3")
        await project.enqueue("wash")
        await prints(process, "washed by version 3")

        (worker,) = [row.pid for row in await aside(rows, database)]
        assert worker != process.pid
        await stopped(process)
    assert not exists(worker)
    assert await aside(counts, database) == {}
    assert await aside(count, database, "process") == 0


async def test_who_is_told_to_stop_while_it_starts_again_stops(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--only-work", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await prints(process, "began")
        children = [row.pid for row in await aside(rows, database)]
        assert len(children) == 2
        project.write("version 2")
        await prints(process, "is stopping: 1 tasks still running")
        process.send_signal(signal.SIGINT)
        project.done.touch()
        printed = await printed_by(process)
    assert "repaired by version 1" in printed
    assert "started" not in printed
    assert not any(map(exists, children))
    assert await aside(count, database, "process") == 0


async def test_what_it_has_started_stops_when_it_is_killed(database: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--async", "--reload", cwd=tmp_path) as process:
        await project.enqueue("repair")
        await prints(process, "began")
        (worker,) = [row.pid for row in await aside(rows, database)]
        process.kill()
        try:
            async with asyncio.timeout(PATIENCE):
                await prints(process, "is stopping: 1 tasks still running")
            project.done.touch()
            assert "repaired by version 1" in await printed_by(process, code=-signal.SIGKILL)
            await until(lambda: not exists(worker), "it stays")
        finally:
            if exists(worker):
                os.kill(worker, signal.SIGKILL)
    assert await aside(counts, database) == {}
    assert await aside(count, database, "process") == 0


async def test_its_status_is_that_of_the_command(database: str, tmp_path: Path) -> None:
    Project(tmp_path, database)
    with program("manage.py", "steady_queue", "--threads=many", "--reload", cwd=tmp_path) as process:
        await prints(process, "--threads must be an integer, not 'many'")
        await prints(process, "the command exited with status 1")
        process.send_signal(signal.SIGTERM)
        await printed_by(process, code=1)
