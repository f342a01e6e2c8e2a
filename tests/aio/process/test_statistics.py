"""The statistics and measurements that running processes write."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.events import RuntimeFault
from tests.shop.tasks import add, blocks_until_file
from tests.support.databases.tables import count, query, row
from tests.support.maintenance import IDLE, run_maintenance_turn
from tests.support.processes.commands import command, stop_command
from tests.support.processes.process_rows import wait_for_worker
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import misbehaving, recording, retrying
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from pathlib import Path

    from steady_queue.aio import Process

pytestmark = pytest.mark.anyio


@pytest.fixture
def quick_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.05))


def read_sums(alias: str, seconds: int = 60) -> dict[str, tuple[int, ...]]:
    """By the name of the task: started, finished, failed and retried, of all minutes, or hours, and processes."""
    from steady_queue.models import TaskStatistics

    found: dict[str, tuple[int, ...]] = {}
    for stored in TaskStatistics.objects.using(alias).filter(seconds=seconds):
        name = stored.task_path.rpartition(".")[2]
        sums = (stored.started, stored.finished, stored.failed, stored.retried)
        found[name] = tuple(map(sum, zip(found.get(name, (0,) * 4), sums, strict=True)))
    return found


async def measurements_of(alias: str, process: Process) -> dict[str, Any]:
    found = await in_thread(row, alias, "Process", process.id, "id")
    assert found is not None
    return dict(json.loads(found["measurements"] or "{}"))


async def run_known_tasks() -> None:
    """Sync and async tasks that succeed, fail, are retried and are released."""
    results = [
        *[await recording.rests.aenqueue(number) for number in range(7)],
        *[await recording.works.aenqueue(number) for number in range(5)],
        await retrying.flaky.aenqueue(3),
        await retrying.flaky.aenqueue(9),
        await retrying.flaky_in_thread.aenqueue(2),
        await retrying.never_again.aenqueue(),
    ]
    await wait_for_results(*results)
    retrying.attempts.clear()
    await wait_for_results(await retrying.asks.aenqueue("snooze"))


KNOWN_SUMS = {
    "rests": (7, 7, 0, 0),
    "works": (5, 5, 0, 0),
    "flaky": (6, 1, 1, 4),
    "flaky_in_thread": (2, 1, 0, 1),
    "never_again": (1, 0, 1, 0),
    "asks": (2, 1, 0, 0),
}


async def test_the_statistics_of_two_processes_are_exact_after_both_have_stopped(
    database: str, quick_beats: None
) -> None:
    async with running(worker()), running(worker()):
        await run_known_tasks()
    assert await in_thread(read_sums, database) == KNOWN_SUMS
    (stored,) = await in_thread(
        query,
        database,
        "SELECT sum(run_milliseconds), max(longest_run_milliseconds), sum(wait_milliseconds),"
        " max(longest_wait_milliseconds), count(DISTINCT queue_name), count(DISTINCT process_id)"
        " FROM steady_queue_taskstatistics WHERE task_path LIKE '%%.rests'",
    )
    assert stored[0] >= 7 * 20
    assert 20 <= stored[1] <= stored[0]
    assert 0 <= stored[3] <= stored[2]
    assert stored[4] == 1
    assert stored[5] in (1, 2)


async def test_heartbeats_write_what_has_been_started_and_not_only_what_has_ended(
    database: str, quick_beats: None
) -> None:
    async with running(worker(coroutines=4, threads=2)) as process:
        await recording.awaits.aenqueue("async")
        await recording.blocks.aenqueue("first")
        await recording.blocks.aenqueue("second")
        await recording.blocks.aenqueue("waits for a thread")

        async def are_written() -> bool:
            return await in_thread(read_sums, database) == {"awaits": (1, 0, 0, 0), "blocks": (2, 0, 0, 0)}

        await until(are_written)

        async def are_measured() -> bool:
            return (await measurements_of(database, process)).get("running") == 3

        await until(are_measured)
        measured = await measurements_of(database, process)
        assert measured["lanes"] == {"async": [1, 4], "thread": [2, 2]}
        assert measured["memory_bytes"] > 1_000_000
        assert measured["stuck_threads"] == 0
        assert 0 <= measured["lag_seconds"] < 20
        task_record.gate.set()
        await until(lambda: process.services.workers[0].capacity.idle.is_set() and task_record.runs.total() == 4)
    assert await in_thread(read_sums, database) == {"awaits": (1, 1, 0, 0), "blocks": (3, 3, 0, 0)}


#: All columns but the id, which a row that is written again keeps.
ROWS = (
    "SELECT process_id, seconds, starts_at, task_path, started, finished, failed, retried, run_milliseconds,"
    " wait_milliseconds FROM steady_queue_taskstatistics ORDER BY task_path, process_id, starts_at"
)


def make_older(alias: str) -> None:
    """Let the minutes be those of hours that are added up."""
    from steady_queue.models import TaskStatistics

    for stored in TaskStatistics.objects.using(alias):
        stored.starts_at -= timedelta(hours=4)
        stored.save(using=alias)


async def test_sums_of_a_killed_worker_stay_and_neither_its_replacement_nor_the_hours_count_them_twice(
    database: str, quick_beats: None, tmp_path: Path
) -> None:
    async def are_written(**sums: tuple[int, ...]) -> None:
        async def are() -> bool:
            return await in_thread(read_sums, database) == sums

        await until(are)

    lost, before, after = (1, 0, 0, 0), (5, 5, 0, 0), (8, 8, 0, 0)
    with command(database, "--only-work", alive=10) as process:
        await values(*[await add.aenqueue(number) for number in range(5)])
        result = await blocks_until_file.aenqueue(str(tmp_path / "never"))
        await are_written(add=before, blocks_until_file=lost)
        written = await in_thread(query, database, ROWS)
        victim = await wait_for_worker(database)
        os.kill(victim, signal.SIGKILL)
        await wait_for_worker(database, other_than=victim)
        await wait_for_results(result)
        assert error_of(result) == "steady_queue.processes.ProcessExitError"
        await values(*[await add.aenqueue(number) for number in range(3)])
        # A lost task is no failure of the statistics: the process that would count it has ended.
        await are_written(add=after, blocks_until_file=lost)
        await stop_command(process)
    found = await in_thread(query, database, ROWS)
    assert [one for one in found if one in written] == written
    assert len({process_id for process_id, *_ in found}) == 2
    assert await in_thread(read_sums, database) == {"add": after, "blocks_until_file": lost}

    await in_thread(make_older, database)
    async with running(IDLE) as idle:
        for _ in range(2):
            await run_maintenance_turn(idle)
    assert await in_thread(read_sums, database) == {}
    assert await in_thread(read_sums, database, 3600) == {"add": after, "blocks_until_file": lost}


@pytest.mark.usually_on("sqlite")
async def test_a_process_that_ran_nothing_writes_no_statistics(database: str, quick_beats: None) -> None:
    async with running(worker()) as process:
        await until(lambda: process.services.heartbeat.is_steady)
        found = await in_thread(row, database, "Process", process.id, "id")
        assert found is not None
        metadata = json.loads(found["metadata"])
        assert metadata["version"] == steady_queue.__version__
        (actor,) = [one for one in metadata["actors"] if one["kind"] == "worker"]
        assert (actor["queues"], actor["async"], actor["thread"]) == (["*"], 100, 3)
    assert await in_thread(count, database, "taskstatistics") == 0


@pytest.mark.usually_on("sqlite")
async def test_statistics_that_cannot_be_written_are_written_later_and_heartbeats_continue(
    database: str, quick_beats: None
) -> None:
    emitted = EmittedEvents()
    name = "steady_queue_taskstatistics"
    async with running(worker(), events=emitted) as process:
        await in_thread(query, database, f"ALTER TABLE {name} RENAME TO {name}_away")
        try:
            await wait_for_results(await recording.rests.aenqueue(1))
            await until(lambda: bool(emitted.of(RuntimeFault)))
            since = process.services.lease.expires_at
            await until(lambda: process.services.lease.expires_at > since + 0.2)
        finally:
            await in_thread(query, database, f"ALTER TABLE {name}_away RENAME TO {name}")

        async def are_written() -> bool:
            return await in_thread(read_sums, database) == {"rests": (1, 1, 0, 0)}

        await until(are_written)
    (fault,) = emitted.of(RuntimeFault)
    assert fault.where == "the statistics could not be written"


@pytest.mark.usually_on("sqlite")
async def test_a_task_that_blocks_the_event_loop_is_seen_as_lag(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.5))
    async with running(worker()) as process:
        await wait_for_results(await misbehaving.blocks_the_loop.aenqueue(1.2))
        longest = 0.0
        async with asyncio.timeout(20):
            while longest < 0.2:
                longest = (await measurements_of(database, process)).get("lag_seconds", 0.0)
                await asyncio.sleep(0.02)
