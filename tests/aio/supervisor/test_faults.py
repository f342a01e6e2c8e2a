"""What a supervisor and its processes survive: a stop while tasks run, frozen and killed processes, crash loops."""

from __future__ import annotations

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
from tests.aio.supervisor.helpers import EXIT_ERROR, MARGIN_SECONDS, on_servers, wait_for_processes
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits, awaits_alone, blocks, blocks_alone
from tests.shop.tasks import add, charge, sleeps_for_long
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, rows, wait_for_worker
from tests.support.processes.scripts import REPOSITORY, SETUP
from tests.support.runtime import error_of, in_thread, values, wait_for_results, worker
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from tests.aio.supervisor.task_log import TaskLog
    from tests.support.processes.commands import Command


pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]

#: Setup of a manage.py whose processes run maintenance several times a second.
FREQUENT_MAINTENANCE = (
    f"{IMPORT_TASKS}\nfrom steady_queue.aio.maintenance import maintenance\nmaintenance.INTERVAL_SECONDS = 0.3"
)


# -- a stop while tasks run -------------------------------------------------------------------------------------------


@on_servers
@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM] * 5, [signal.SIGINT, signal.SIGTERM]], ids=["TERM five times", "INT and TERM"]
)
async def test_a_stop_lets_short_tasks_finish_and_never_releases_what_runs(
    database: str, signals: list[signal.Signals], task_log: TaskLog, tmp_path: Path
) -> None:
    """A short task and a long one of each kind."""
    shutdown_timeout_seconds = 1.5
    calls = [task.bind(task_log.path, task.name, str(tmp_path / "file")) for task in (awaits, blocks)]
    short = list(await aenqueue_all(calls))
    long = await sleeps_for_long.aenqueue()
    stubborn = await blocks.aenqueue(task_log.path, "stubborn", "never")
    with command(database, shutdown_timeout_seconds=shutdown_timeout_seconds, setup=IMPORT_TASKS) as process:
        await task_log.has_begun("awaits", "blocks", "stubborn")
        await wait_for_output(process, "began")
        pid = await wait_for_worker(database)
        signalled_at = time.monotonic()
        for number in signals:
            process.send_signal(number)
        await wait_for_output(process, "is stopping: 4 tasks")
        (tmp_path / "file").touch()
        while await in_thread(where, database, stubborn) == ["claimed"]:
            assert time.monotonic() - signalled_at < shutdown_timeout_seconds + MARGIN_SECONDS
        assert not exists(pid)  # a running task is never released
        await read_output(process)
        assert time.monotonic() - signalled_at < shutdown_timeout_seconds + MARGIN_SECONDS
    assert await values(*short) == ["done", "done"]
    assert await in_thread(where, database, long) == ["ready"]
    assert await in_thread(where, database, stubborn) == ["ready"]
    assert sorted(task_log.began) == ["awaits", "blocks", "stubborn"]
    assert await in_thread(count, database, "process") == 0


def where(alias: str, result: TaskResult[Any]) -> list[str]:
    """The state of an unfinished job by its execution rows, of which there must be one."""
    found = []
    for name in ("ready", "claimed", "failed"):
        stands = query(alias, f"SELECT job_id FROM steady_queue_{name}execution")
        if result.id.replace("-", "") in {str(job_id).replace("-", "") for (job_id,) in stands}:
            found.append(name)
    return found


# -- frozen processes -------------------------------------------------------------------------------------------------


@on_servers
async def test_a_frozen_worker_that_was_pruned_changes_nothing_when_it_resumes(
    database: str, task_log: TaskLog, tmp_path: Path
) -> None:
    """Frozen with its supervisor, as in a paused container; the other worker takes both for dead."""
    taken = await awaits_alone.aenqueue(task_log.path, "taken", str(tmp_path / "file"))
    following = await awaits_alone.aenqueue(task_log.path, "following", str(tmp_path / "later"))
    with command(database, "--processes", "2", "--only-work", alive=3, setup=FREQUENT_MAINTENANCE) as process:
        await task_log.has_begun("taken")
        pids = await wait_for_processes(database, 3)
        (victim,) = await in_thread(owners, database)
        process.send_signal(signal.SIGSTOP)
        os.kill(victim, signal.SIGSTOP)
        try:
            (tmp_path / "file").touch()  # when it resumes, its task ends at once
            await wait_for_results(taken)
            assert error_of(taken) == "steady_queue.processes.ProcessPrunedError"
            await task_log.has_begun("following")  # the slot is free
            before = await in_thread(facts, database)
        finally:
            os.kill(victim, signal.SIGCONT)
        await wait_for_output(process, "lost its claim while it ran")
        process.send_signal(signal.SIGCONT)
        assert await wait_for_processes(database, 3) == pids
        assert await in_thread(facts, database) == before
        (tmp_path / "later").touch()
        assert await values(following, await add.aenqueue(1)) == ["done", 1]
        await stop_command(process)
    assert task_log.began == ["taken", "following"]
    assert await in_thread(facts, database) <= before


def owners(alias: str) -> set[int]:
    """The processes that have claims."""
    text = "SELECT p.pid FROM steady_queue_process p JOIN steady_queue_claimedexecution c ON c.process_id = p.id"
    return {pid for (pid,) in query(alias, text)}


def facts(alias: str) -> set[tuple[Any, ...]]:
    """What is stored about failed jobs and occupied slots."""
    failed = query(
        alias,
        "SELECT j.id, j.attempts, j.worker_ids, j.finished_at, f.exception_class FROM steady_queue_job j"
        " JOIN steady_queue_failedexecution f ON f.job_id = j.id",
    )
    return {*failed, *query(alias, "SELECT concurrency_key, job_id FROM steady_queue_semaphore")}


# -- rows of dead processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_embedded", [False, True], ids=["supervisor", "embedded"])
async def test_a_start_fails_claims_without_a_process_and_frees_their_slots(database: str, is_embedded: bool) -> None:
    orphan, following = await charge.aenqueue("ada"), await charge.aenqueue("ada")
    await in_thread(lose_a_process, database)
    if is_embedded:
        async with running(worker()):
            await wait_for_results(orphan, following)
    else:
        with command(database) as process:
            await wait_for_results(orphan, following)
            await stop_command(process)
    assert error_of(orphan) == "steady_queue.processes.ProcessMissingError"
    assert not following.errors
    assert await in_thread(count, database, "semaphore") == 0


def lose_a_process(alias: str) -> None:
    """Claim a task for a process, and delete its row."""
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


async def test_an_embedded_runtime_that_is_killed_leaves_its_rows_to_other_processes(
    database: str, task_log: TaskLog
) -> None:
    text = SETUP.format(alias=database) + EMBEDDED.replace("tests.shop import", "tests.aio.supervisor import")
    orphan = await blocks_alone.aenqueue(task_log.path, "first", "never")
    following = await blocks_alone.aenqueue(task_log.path, "second", "/")
    with subprocess.Popen(  # noqa: ASYNC220, the test waits for the effects of the program
        [sys.executable, "-c", text], cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ) as program:
        try:
            await task_log.has_begun("first")
        finally:
            program.kill()
    assert [row.pid for row in await in_thread(rows, database)] == [program.pid]
    assert await in_thread(counts, database) == {"claimed": 1, "blocked": 1}
    async with running(worker()):
        await wait_for_results(orphan, following)
    assert error_of(orphan) == EXIT_ERROR
    assert following.return_value == "done"
    assert await in_thread(count, database, "process") == 0


# -- a crash loop -----------------------------------------------------------------------------------------------------


@pytest.mark.only_on("sqlite")
async def test_a_crash_loop_uses_little_time_of_its_supervisor_and_ends_when_its_cause_does(
    database: str, tmp_path: Path
) -> None:
    cure = tmp_path / "cure"
    setup = f"import os\nif 'STEADY_QUEUE_CHILD' in os.environ and not os.path.exists({str(cure)!r}): os._exit(7)"
    with command(database, "--only-work", setup=setup) as process:
        await wait_for_output(process, "exited with status 7")
        since, used = time.monotonic(), cpu_of(process)
        for _ in range(3):
            await wait_for_output(process, "exited with status 7")
        assert cpu_of(process) - used < 0.05 * (time.monotonic() - since)
        cure.touch()
        assert await values(await add.aenqueue(1)) == [1]
        await stop_command(process)


def cpu_of(process: Command) -> float:
    """The seconds of processor time that the process itself has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
