"""`--async --processes 2`: one event loop that runs everything, and another process for each other copy."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.shop import tasks
from tests.shop.tasks import add
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, pids, rows
from tests.support.runtime import error_of, in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


async def test_another_process_works_is_replaced_when_killed_and_stops_with_the_first(
    database: str, tmp_path: Path
) -> None:
    with command(database, "--async", "--processes", "2", "--threads", "1", shutdown_timeout_seconds=5) as process:
        other = await wait_for_other_worker(database, process.pid)
        (child,) = [row for row in await in_thread(rows, database) if row.pid == other]
        assert child.actors == ["worker"]
        (main,) = [row for row in await in_thread(rows, database) if row.pid == process.pid]
        assert main.actors == ["worker", "dispatcher", "scheduler"]

        # One thread each: two tasks at once mean that both processes work.
        both = [await tasks.blocks_until_file.aenqueue(str(tmp_path / "never")) for _ in range(2)]
        await wait_for_output(process, "began")
        await wait_for_output(process, "began")
        lost = await claimed_by(database, other)
        os.kill(other, signal.SIGKILL)
        (victim,) = [result for result in both if result.id.replace("-", "") in lost]
        await wait_for_results(victim)
        assert error_of(victim) == "steady_queue.processes.ProcessExitError"
        again = await wait_for_other_worker(database, process.pid, other)
        assert await values(await add.aenqueue(1)) == [1]

        process.send_signal(signal.SIGTERM)
        await wait_for_output(process, "is stopping: 1 task still running")
        (tmp_path / "never").touch()
        printed = await stop_command(process)
    assert f"process {again} (worker (*)) ended: it exited with status 0" in printed
    assert not exists(again)
    assert await in_thread(counts, database) == {"failed": 1}
    assert await in_thread(count, database, "process") == 0


async def wait_for_other_worker(alias: str, *known: int) -> int:
    """Wait for a registered worker with none of these process ids, and return its process id."""
    found: list[int] = []

    async def there() -> bool:
        found[:] = [pid for pid in await pids(alias, "worker") if pid not in known]
        return bool(found)

    await until(there, "no other worker is registered")
    return found[0]


async def claimed_by(alias: str, pid: int) -> set[str]:
    """The ids of the jobs that a process has."""
    found = await in_thread(
        query,
        alias,
        "SELECT c.job_id FROM steady_queue_claimedexecution c JOIN steady_queue_process p ON p.id = c.process_id "
        "WHERE p.pid = %s",
        pid,
    )
    return {str(job_id).replace("-", "") for (job_id,) in found}
