"""A supervisor and its processes while the database is unavailable."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from steady_queue import aenqueue_all
from tests.aio.supervisor.helpers import AWAY, EXIT_ERROR, MARGIN, attempts, is_over, on_servers, registered
from tests.aio.supervisor.tasks import KNOWN, awaits, blocks, blocks_alone, rests, works
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts
from tests.support.processes.commands import command, prints, stopped
from tests.support.processes.process_rows import exists, rows, working
from tests.support.runtime import aside, ended, error_of, until, values

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aio.supervisor.task_log import Ledger
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


@on_servers
async def test_restarts_of_the_server_and_an_outage_cost_no_process_and_no_task_and_repeat_none(
    database: str, servers: Servers, ledger: Ledger, tmp_path: Path
) -> None:
    server, file = servers[database], tmp_path / "file"
    held = [task.bind(ledger.path, task.name, str(file)) for task in (awaits, blocks, blocks_alone)]
    many = [(works if n % 3 else rests).bind(ledger.path, str(n), 0.01) for n in range(600)]
    await aenqueue_all([*held, *many])
    with command(database, "--coroutines", "3", "--threads", "4", setup=KNOWN) as process:
        await ledger.has_begun("awaits", "blocks", "blocks_alone", "0")
        before = await registered(database, 3)
        for _ in range(5):
            done = len(ledger.ended)
            await until(lambda done=done: len(ledger.ended) >= done + 10, "it does not go on")  # type: ignore[misc]
            await asyncio.to_thread(server.restart)
        assert len(ledger.began) < len(held) + len(many)
        await asyncio.to_thread(server.stop)
        file.touch()
        await ledger.has_ended("awaits", "blocks", "blocks_alone")
        await prints(process, f"settler: {AWAY}")
        await asyncio.sleep(3)  # the outage itself: several tries of everybody
        await asyncio.to_thread(server.start)
        await until(lambda: is_over(database), "some tasks never end")
        assert await registered(database, 3) == before
        assert all(map(exists, before))
        await stopped(process)
    assert sorted(ledger.began) == sorted({*ledger.began})
    assert len(ledger.began) == len(ledger.ended) == len(held) + len(many)
    assert await aside(attempts, database) == [(1,)]
    assert await aside(count, database, "process") == 0


@on_servers
async def test_a_worker_killed_while_the_database_is_away_is_replaced_at_once_and_its_tasks_fail_when_it_is_back(
    database: str, proxy: Proxy, ledger: Ledger
) -> None:
    calls = [task.bind(ledger.path, task.name, "never") for task in (awaits, blocks, blocks_alone)]
    lost = list(await aenqueue_all(calls))
    with command(database, port=proxy.port, setup=KNOWN) as process:
        await ledger.has_begun("awaits", "blocks", "blocks_alone")
        victim = await working(database)
        proxy.go()
        await prints(process, AWAY)
        os.kill(victim, signal.SIGKILL)
        assert "restarted in 0.0 s" in await prints(process, f"process {victim} (worker (*)) died")
        await prints(process, "worker (*) started as process")
        assert await aside(counts, database) == {"claimed": 3}
        proxy.come_back()
        await ended(*lost)
        assert {error_of(result) for result in lost} == {EXIT_ERROR}
        assert await values(await add.aenqueue(1)) == [1]
        assert await working(database) != victim
        await stopped(process)


@on_servers
async def test_a_stop_while_the_database_is_away_ends_in_time_for_those_that_boot_as_well(
    database: str, proxy: Proxy, ledger: Ledger, tmp_path: Path
) -> None:
    """And the next start fails what could not be written, and frees its slot."""
    first, second = await aenqueue_all(
        [blocks_alone.bind(ledger.path, name, str(tmp_path / "file")) for name in ("first", "second")]
    )
    with command(database, port=proxy.port, setup=KNOWN) as process:
        await ledger.has_begun("first")
        pids = await registered(database, 3)
        (dispatcher,) = [row.pid for row in await aside(rows, database) if "dispatcher" in row.actors]
        proxy.go()
        await prints(process, AWAY)
        os.kill(dispatcher, signal.SIGKILL)
        await prints(process, f"start: {AWAY}")  # the one that takes its place boots without a database
        (tmp_path / "file").touch()
        await ledger.has_ended("first")
        told = time.monotonic()
        printed = await stopped(process)
        assert time.monotonic() - told < 1 + MARGIN, printed
    assert not any(map(exists, pids))
    assert await aside(counts, database) == {"claimed": 1, "blocked": 1}
    with command(database, setup=KNOWN) as successor:
        await ended(first, second)
        assert error_of(first) == EXIT_ERROR
        assert second.return_value == "done"
        await stopped(successor)
    assert await aside(count, database, "process") == 0


@on_servers
async def test_a_start_without_the_database_can_be_stopped(database: str, proxy: Proxy) -> None:
    proxy.go()
    with command(database, port=proxy.port) as process:
        await prints(process, AWAY)
        told = time.monotonic()
        await stopped(process)
        assert time.monotonic() - told < MARGIN


@on_servers
async def test_a_start_without_the_database_works_when_it_comes(database: str, proxy: Proxy) -> None:
    result = await add.aenqueue(1)
    proxy.go()
    with command(database, port=proxy.port) as process:
        await prints(process, AWAY)
        proxy.come_back()
        assert await values(result) == [1]
        assert process.pid in await registered(database, 3)
        await stopped(process)


@on_servers
async def test_a_worker_that_is_cut_off_for_too_long_with_a_task_in_a_thread_is_replaced(
    database: str, proxy: Proxy, ledger: Ledger
) -> None:
    lost = await blocks_alone.aenqueue(ledger.path, "first", "never")
    with command(database, "--only-work", port=proxy.port, alive=3, setup=KNOWN) as process:
        await ledger.has_begun("first")
        proxy.go()
        await prints(process, "exited with status 75")
        assert await aside(counts, database) == {"claimed": 1}
        proxy.come_back()
        await ended(lost)
        assert error_of(lost) == EXIT_ERROR
        assert await values(await add.aenqueue(1)) == [1]
        await stopped(process)
