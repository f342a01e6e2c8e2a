"""A supervisor and its processes while the database is unavailable."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from steady_queue import aenqueue_all
from tests.aio.supervisor.helpers import (
    EXIT_ERROR,
    MARGIN_SECONDS,
    UNAVAILABLE,
    all_jobs_finished,
    distinct_attempts,
    on_servers,
    wait_for_processes,
)
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits, blocks, blocks_alone, rests, works
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts
from tests.support.processes.commands import command, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, rows, wait_for_worker
from tests.support.runtime import error_of, in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aio.supervisor.task_log import TaskLog
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


@on_servers
async def test_restarts_of_the_server_and_an_outage_end_no_process_lose_no_task_and_repeat_none(
    database: str, servers: Servers, task_log: TaskLog, tmp_path: Path
) -> None:
    server, file = servers[database], tmp_path / "file"
    held = [task.bind(task_log.path, task.name, str(file)) for task in (awaits, blocks, blocks_alone)]
    many = [(works if n % 3 else rests).bind(task_log.path, str(n), 0.01) for n in range(600)]
    await aenqueue_all([*held, *many])
    with command(database, "--coroutines", "3", "--threads", "4", setup=IMPORT_TASKS) as process:
        await task_log.has_begun("awaits", "blocks", "blocks_alone", "0")
        before = await wait_for_processes(database, 3)
        for _ in range(5):
            done = len(task_log.ended)
            await until(lambda done=done: len(task_log.ended) >= done + 10, "it does not go on")  # type: ignore[misc]
            await asyncio.to_thread(server.restart)
        assert len(task_log.began) < len(held) + len(many)
        await asyncio.to_thread(server.stop)
        file.touch()
        await task_log.has_ended("awaits", "blocks", "blocks_alone")
        await wait_for_output(process, f"settler: {UNAVAILABLE}")
        await asyncio.sleep(3)  # the outage itself: each process retries several times
        await asyncio.to_thread(server.start)
        await until(lambda: all_jobs_finished(database), "some tasks never end")
        assert await wait_for_processes(database, 3) == before
        assert all(map(exists, before))
        await stop_command(process)
    assert sorted(task_log.began) == sorted({*task_log.began})
    assert len(task_log.began) == len(task_log.ended) == len(held) + len(many)
    assert await in_thread(distinct_attempts, database) == [(1,)]
    assert await in_thread(count, database, "process") == 0


@on_servers
async def test_a_worker_killed_during_an_outage_is_replaced_at_once_and_its_tasks_fail_after_the_outage(
    database: str, proxy: Proxy, task_log: TaskLog
) -> None:
    calls = [task.bind(task_log.path, task.name, "never") for task in (awaits, blocks, blocks_alone)]
    lost = list(await aenqueue_all(calls))
    with command(database, port=proxy.port, setup=IMPORT_TASKS) as process:
        await task_log.has_begun("awaits", "blocks", "blocks_alone")
        victim = await wait_for_worker(database)
        proxy.go()
        await wait_for_output(process, UNAVAILABLE)
        os.kill(victim, signal.SIGKILL)
        assert "restarted in 0.0 s" in await wait_for_output(process, f"process {victim} (worker (*)) died")
        await wait_for_output(process, "worker (*) started as process")
        assert await in_thread(counts, database) == {"claimed": 3}
        proxy.come_back()
        await wait_for_results(*lost)
        assert {error_of(result) for result in lost} == {EXIT_ERROR}
        assert await values(await add.aenqueue(1)) == [1]
        assert await wait_for_worker(database) != victim
        await stop_command(process)


@on_servers
async def test_a_stop_during_an_outage_ends_in_time_also_for_processes_that_are_starting(
    database: str, proxy: Proxy, task_log: TaskLog, tmp_path: Path
) -> None:
    """The next start fails the task whose outcome could not be written, and frees its slot."""
    first, second = await aenqueue_all(
        [blocks_alone.bind(task_log.path, name, str(tmp_path / "file")) for name in ("first", "second")]
    )
    with command(database, port=proxy.port, setup=IMPORT_TASKS) as process:
        await task_log.has_begun("first")
        pids = await wait_for_processes(database, 3)
        (dispatcher,) = [row.pid for row in await in_thread(rows, database) if "dispatcher" in row.actors]
        proxy.go()
        await wait_for_output(process, UNAVAILABLE)
        os.kill(dispatcher, signal.SIGKILL)
        await wait_for_output(process, f"start: {UNAVAILABLE}")  # its replacement starts without a database
        (tmp_path / "file").touch()
        await task_log.has_ended("first")
        signalled_at = time.monotonic()
        printed = await stop_command(process)
        assert time.monotonic() - signalled_at < 1 + MARGIN_SECONDS, printed
    assert not any(map(exists, pids))
    assert await in_thread(counts, database) == {"claimed": 1, "blocked": 1}
    with command(database, setup=IMPORT_TASKS) as successor:
        await wait_for_results(first, second)
        assert error_of(first) == EXIT_ERROR
        assert second.return_value == "done"
        await stop_command(successor)
    assert await in_thread(count, database, "process") == 0


@on_servers
async def test_a_start_without_the_database_can_be_stopped(database: str, proxy: Proxy) -> None:
    proxy.go()
    with command(database, port=proxy.port) as process:
        await wait_for_output(process, UNAVAILABLE)
        signalled_at = time.monotonic()
        await stop_command(process)
        assert time.monotonic() - signalled_at < MARGIN_SECONDS


@on_servers
async def test_a_start_without_the_database_works_when_the_database_is_available(database: str, proxy: Proxy) -> None:
    result = await add.aenqueue(1)
    proxy.go()
    with command(database, port=proxy.port) as process:
        await wait_for_output(process, UNAVAILABLE)
        proxy.come_back()
        assert await values(result) == [1]
        assert process.pid in await wait_for_processes(database, 3)
        await stop_command(process)


@on_servers
async def test_a_worker_without_the_database_for_too_long_with_a_task_in_a_thread_is_replaced(
    database: str, proxy: Proxy, task_log: TaskLog
) -> None:
    lost = await blocks_alone.aenqueue(task_log.path, "first", "never")
    with command(database, "--only-work", port=proxy.port, alive=3, setup=IMPORT_TASKS) as process:
        await task_log.has_begun("first")
        proxy.go()
        await wait_for_output(process, "exited with status 75")
        assert await in_thread(counts, database) == {"claimed": 1}
        proxy.come_back()
        await wait_for_results(lost)
        assert error_of(lost) == EXIT_ERROR
        assert await values(await add.aenqueue(1)) == [1]
        await stop_command(process)
