"""`--max-tasks` and `--max-rss`: a process that has done enough, or grown too large, is replaced while it finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.aio.process.recycling import MIB, Recycling, TaskCounter, resident_bytes
from steady_queue.events import Events, JobsSettled, ProcessRecycling
from tests.shop import tasks
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, read_output, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, wait_for_worker
from tests.support.runtime import EmittedEvents, in_thread, until, values

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]

#: A manage.py whose processes check nothing periodically: they act on messages only.
WITHOUT_PERIODIC_CHECKS = """
from steady_queue.aio.process import recycling
from steady_queue.aio.supervisor import children
children.CHECK_SECONDS = recycling.CHECK_SECONDS = 3600
"""


@pytest.mark.parametrize(
    "limit",
    [("--max-tasks", "30"), pytest.param(("--max-rss", "1"), marks=pytest.mark.only_on("sqlite"))],
    ids=["tasks", "memory"],
)
async def test_a_replacement_works_while_the_last_task_ends_and_nothing_is_lost_or_run_twice(
    database: str, tmp_path: Path, limit: tuple[str, str]
) -> None:
    last = [await task.aenqueue(str(tmp_path / "file")) for task in (tasks.awaits_file, tasks.blocks_until_file)]
    with command(database, "--only-work", *limit) as process:
        await wait_for_output(process, "began")
        await wait_for_output(process, "began")
        first = await wait_for_worker(database)
        many = [await add.aenqueue(number) for number in range(40)]
        assert await values(*many) == list(range(40))
        await wait_for_output(process, "this process is being recycled")
        second = await wait_for_worker(database, other_than=first)
        assert exists(first)
        assert await values(await add.aenqueue(1)) == [1]
        (tmp_path / "file").touch()
        assert await values(*last) == ["done"] * 2
        await until(lambda: not exists(first), "the first stays")
        printed = await stop_command(process)
    assert f"process {first} (worker (*)) ended: it exited with status 0" in printed
    assert "died" not in printed
    assert not exists(second)
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0
    assert await in_thread(query, database, "SELECT attempts, count(*) FROM steady_queue_job GROUP BY attempts") == [
        (1, 43)
    ]


@pytest.mark.only_on("sqlite")
async def test_a_loop_without_a_supervisor_ends_when_its_last_task_has(database: str, tmp_path: Path) -> None:
    # Longer than the shutdown timeout: a recycling process may go on for as long as it needs.
    last = await tasks.blocks_until_file.aenqueue(str(tmp_path / "file"))
    environ = {"STEADY_QUEUE_MAX_TASKS": "2"}
    with command(
        database, "--async", environ=environ, shutdown_timeout_seconds=0.1, setup=WITHOUT_PERIODIC_CHECKS
    ) as process:
        await wait_for_output(process, "began")
        await values(await add.aenqueue(1), await add.aenqueue(2))
        await wait_for_output(process, "it has ended 2 tasks, the limit is 2")
        await wait_for_output(process, "is stopping: 1 task still running")
        untouched = await add.aenqueue(3)
        (tmp_path / "file").touch()
        await read_output(process)
    assert await values(last) == ["done"]
    await untouched.arefresh()
    assert not untouched.is_finished
    assert await in_thread(counts, database) == {"ready": 1}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("sqlite")
async def test_there_are_never_two_recycling_processes_and_one_that_claims_new_tasks(
    database: str, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("first", "second", "third")]
    limits = ("--threads", "1", "--coroutines", "1", "--max-tasks", "1")
    with command(database, "--only-work", *limits, alive=3000, setup=WITHOUT_PERIODIC_CHECKS) as process:
        pids: list[int] = []
        for file in files[:2]:
            await tasks.blocks_until_file.aenqueue(str(file))
            await wait_for_output(process, "began")
            pids.append(await wait_for_worker(database, other_than=pids[0] if pids else None))
            await tasks.anoop.aenqueue()
            await wait_for_output(process, "this process is being recycled")
        last = await tasks.blocks_until_file.aenqueue(str(files[2]))
        files[0].touch()
        # Until the first process has exited, no process claims the third task.
        line = await wait_for_output(process, "worker (*)")
        assert f"process {pids[0]} (worker (*)) ended: it exited with status 0" in line
        await wait_for_output(process, "worker (*) started as process")
        await wait_for_output(process, "began")
        assert exists(pids[1])
        for file in files[1:]:
            file.touch()
        assert await values(last) == ["done"]
        await stop_command(process)
    assert await in_thread(counts, database) == {}


async def test_memory_counts_once_a_task_has_ended_so_that_a_low_limit_keeps_nothing_from_running() -> None:
    emitted, counter = EmittedEvents(), TaskCounter()
    recycled: list[bool] = []
    recycling = Recycling(
        max_tasks=None,
        max_rss=10,
        counter=counter,
        recycle=lambda: recycled.append(True),
        events=Events([emitted.emit]),
        rss=lambda: 11 * MIB,
    )
    assert recycling._reason() is None
    counter(JobsSettled(count=1, promoted=0, milliseconds=1.0))
    await recycling.run()
    assert recycled == [True]
    (event,) = emitted.of(ProcessRecycling)
    assert event.reason == "it has 11 MiB of memory, the limit is 10"


def test_the_memory_of_this_process_is_known() -> None:
    assert 10 * MIB < resident_bytes() < 4096 * MIB
