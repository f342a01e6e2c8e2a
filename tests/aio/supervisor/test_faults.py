"""What a supervisor and its processes survive: databases that go, stops amid work, frozen processes, crash loops."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.store.job import Lane
from tests.aio.supervisor.tasks import KNOWN, awaits, awaits_alone, blocks, blocks_alone, rests, works
from tests.shop.tasks import add, charge, sleeps_for_long
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, printed_by, prints, stopped
from tests.support.processes.process_rows import exists, rows, working
from tests.support.processes.scripts import REPOSITORY, SETUP
from tests.support.runtime import aside, ended, error_of, until, values, worker
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from tests.aio.supervisor.task_log import Ledger
    from tests.support.processes.commands import Command
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]

on_servers = pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could go

AWAY = "the database is unavailable"
EXIT_ERROR = "steady_queue.processes.ProcessExitError"
#: What a stop may take beyond the time that tasks have, on a busy machine and without a database, in seconds.
MARGIN = 12.0
#: A manage.py whose processes look after others several times a second.
WATCHFUL = f"{KNOWN}\nfrom steady_queue.aio.maintenance import maintenance\nmaintenance.INTERVAL_SECONDS = 0.3"


async def registered(alias: str, number: int) -> set[int]:
    """The process ids of the supervisor and its children, when so many are registered."""
    found: set[int] = set()

    async def there() -> bool:
        found.clear()
        found.update(row.pid for row in await aside(rows, alias))
        return len(found) == number

    await until(there, f"{number} processes are not registered")
    return found


async def is_over(alias: str) -> bool:
    return not await aside(counts, alias)


def attempts(alias: str) -> list[tuple[Any, ...]]:
    return query(alias, "SELECT DISTINCT attempts FROM steady_queue_job")


# -- the database goes ------------------------------------------------------------------------------------------------


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


# -- a stop amid work -------------------------------------------------------------------------------------------------


@on_servers
@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM] * 5, [signal.SIGINT, signal.SIGTERM]], ids=["TERM five times", "INT and TERM"]
)
async def test_a_stop_lets_short_tasks_finish_and_never_gives_back_what_runs(
    database: str, signals: list[signal.Signals], ledger: Ledger, tmp_path: Path
) -> None:
    """A short task and a long one of each kind."""
    patience = 1.5
    calls = [task.bind(ledger.path, task.name, str(tmp_path / "file")) for task in (awaits, blocks)]
    short = list(await aenqueue_all(calls))
    long = await sleeps_for_long.aenqueue()
    stubborn = await blocks.aenqueue(ledger.path, "stubborn", "never")
    with command(database, patience=patience, setup=KNOWN) as process:
        await ledger.has_begun("awaits", "blocks", "stubborn")
        await prints(process, "began")
        pid = await working(database)
        told = time.monotonic()
        for number in signals:
            process.send_signal(number)
        await prints(process, "is stopping: 4 tasks")
        (tmp_path / "file").touch()
        while await aside(where, database, stubborn) == ["claimed"]:
            assert time.monotonic() - told < patience + MARGIN
        assert not exists(pid)  # what runs is never given back
        await printed_by(process)
        assert time.monotonic() - told < patience + MARGIN
    assert await values(*short) == ["done", "done"]
    assert await aside(where, database, long) == ["ready"]
    assert await aside(where, database, stubborn) == ["ready"]
    assert sorted(ledger.began) == ["awaits", "blocks", "stubborn"]
    assert await aside(count, database, "process") == 0


def where(alias: str, result: TaskResult[Any]) -> list[str]:
    """The states that an unfinished job is in by its rows: one."""
    found = []
    for name in ("ready", "claimed", "failed"):
        stands = query(alias, f"SELECT job_id FROM steady_queue_{name}execution")
        if result.id.replace("-", "") in {str(job_id).replace("-", "") for (job_id,) in stands}:
            found.append(name)
    return found


# -- frozen processes -------------------------------------------------------------------------------------------------


@on_servers
async def test_a_frozen_worker_whose_tasks_others_took_changes_nothing_when_it_wakes(
    database: str, ledger: Ledger, tmp_path: Path
) -> None:
    """With its supervisor, as in a container that is paused; the other worker takes both for dead."""
    taken = await awaits_alone.aenqueue(ledger.path, "taken", str(tmp_path / "file"))
    following = await awaits_alone.aenqueue(ledger.path, "following", str(tmp_path / "later"))
    with command(database, "--processes", "2", "--only-work", alive=3, setup=WATCHFUL) as process:
        await ledger.has_begun("taken")
        pids = await registered(database, 3)
        (victim,) = await aside(owners, database)
        process.send_signal(signal.SIGSTOP)
        os.kill(victim, signal.SIGSTOP)
        try:
            (tmp_path / "file").touch()  # when it wakes, its task ends at once
            await ended(taken)
            assert error_of(taken) == "steady_queue.processes.ProcessPrunedError"
            await ledger.has_begun("following")  # the slot is free
            before = await aside(facts, database)
        finally:
            os.kill(victim, signal.SIGCONT)
        await prints(process, "lost its claim while it ran")
        process.send_signal(signal.SIGCONT)
        assert await registered(database, 3) == pids
        assert await aside(facts, database) == before
        (tmp_path / "later").touch()
        assert await values(following, await add.aenqueue(1)) == ["done", 1]
        await stopped(process)
    assert ledger.began == ["taken", "following"]
    assert await aside(facts, database) <= before


def owners(alias: str) -> set[int]:
    """The processes that have claims."""
    text = "SELECT p.pid FROM steady_queue_process p JOIN steady_queue_claimedexecution c ON c.process_id = p.id"
    return {pid for (pid,) in query(alias, text)}


def facts(alias: str) -> set[tuple[Any, ...]]:
    """All that is known of failed jobs and of taken slots."""
    failed = query(
        alias,
        "SELECT j.id, j.attempts, j.worker_ids, j.finished_at, f.exception_class FROM steady_queue_job j"
        " JOIN steady_queue_failedexecution f ON f.job_id = j.id",
    )
    return {*failed, *query(alias, "SELECT concurrency_key, job_id FROM steady_queue_semaphore")}


# -- what the dead leave behind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_embedded", [False, True], ids=["supervisor", "embedded"])
async def test_a_start_fails_claims_that_belong_to_nobody_and_frees_their_slots(
    database: str, is_embedded: bool
) -> None:
    orphan, following = await charge.aenqueue("ada"), await charge.aenqueue("ada")
    await aside(lose_a_process, database)
    if is_embedded:
        async with running(worker()):
            await ended(orphan, following)
    else:
        with command(database) as process:
            await ended(orphan, following)
            await stopped(process)
    assert error_of(orphan) == "steady_queue.processes.ProcessMissingError"
    assert not following.errors
    assert await aside(count, database, "semaphore") == 0


def lose_a_process(alias: str) -> None:
    """A process claims a task, and its row vanishes."""
    store = SyncStore(alias)
    assert store.claim(store.worker("lost"), lane=Lane.THREAD)
    query(alias, "DELETE FROM steady_queue_process")


EMBEDDED = """
from steady_queue.aio import running
from steady_queue.store.job import Lane
from tests.shop import tasks

async def main():
    async with running():
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_an_embedded_runtime_that_is_killed_leaves_its_rows_to_others(database: str, ledger: Ledger) -> None:
    text = SETUP.format(alias=database) + EMBEDDED.replace("tests.shop import", "tests.aio.supervisor import")
    orphan = await blocks_alone.aenqueue(ledger.path, "first", "never")
    following = await blocks_alone.aenqueue(ledger.path, "second", "/")
    with subprocess.Popen(  # noqa: ASYNC220, the program is waited for by what it does
        [sys.executable, "-c", text], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ) as program:
        try:
            await ledger.has_begun("first")
        finally:
            program.kill()
    assert [row.pid for row in await aside(rows, database)] == [program.pid]
    assert await aside(counts, database) == {"claimed": 1, "blocked": 1}
    async with running(worker()):
        await ended(orphan, following)
    assert error_of(orphan) == EXIT_ERROR
    assert following.return_value == "done"
    assert await aside(count, database, "process") == 0


# -- a crash loop -----------------------------------------------------------------------------------------------------


@pytest.mark.only_on("sqlite")
async def test_a_crash_loop_costs_its_supervisor_little_and_ends_when_its_cause_does(
    database: str, tmp_path: Path
) -> None:
    cure = tmp_path / "cure"
    setup = f"import os\nif 'STEADY_QUEUE_CHILD' in os.environ and not os.path.exists({str(cure)!r}): os._exit(7)"
    with command(database, "--only-work", setup=setup) as process:
        await prints(process, "exited with status 7")
        since, used = time.monotonic(), cpu_of(process)
        for _ in range(3):
            await prints(process, "exited with status 7")
        assert cpu_of(process) - used < 0.05 * (time.monotonic() - since)
        cure.touch()
        assert await values(await add.aenqueue(1)) == [1]
        await stopped(process)


def cpu_of(process: Command) -> float:
    """Seconds of processor time that it has used by itself."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
