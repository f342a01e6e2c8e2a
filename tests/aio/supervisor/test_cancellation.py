"""Tasks of several real processes are cancelled by one call."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest

from steady_queue import actions, aenqueue_all
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits, blocks, rests
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, stop_command
from tests.support.runtime import in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

    from tests.aio.supervisor.task_log import TaskLog

pytestmark = pytest.mark.anyio

TASKS = 1000
#: Nothing reads the output, and a thousand tracebacks do not fit into a pipe.
QUIET = "import logging\nlogging.disable()"
#: They must stop within 3 s (measured: 0.6 s, on a busy machine); here the machine runs many other tests.
BOUND_SECONDS = 15.0


def running(alias: str) -> int:
    return int(query(alias, "SELECT count(*) FROM steady_queue_claimedexecution")[0][0])


@pytest.mark.only_on("postgres")
async def test_a_thousand_tasks_of_two_processes_are_stopped_by_one_call_and_no_other(
    database: str, task_log: TaskLog, tmp_path: Path
) -> None:
    file = str(tmp_path / "go")
    others = [await awaits.using(queue_name="mail").aenqueue(task_log.path, f"other {n}", file) for n in range(10)]
    with command(database, "--processes", "2", "--coroutines", "600", setup=f"{IMPORT_TASKS}\n{QUIET}") as process:
        await until(lambda: len(task_log.began) == 10)
        await aenqueue_all([rests.bind(task_log.path, str(n), 3600.0) for n in range(TASKS)])
        await until(lambda: len(task_log.began) == TASKS + 10)
        owners = await in_thread(query, database, "SELECT DISTINCT process_id FROM steady_queue_claimedexecution")
        assert len(owners) == 2
        began = time.monotonic()
        assert await actions.acancel_where("running", queue="default", by="Ada", reason="all of them") == TASKS

        async def stopped() -> bool:
            return await in_thread(running, database) == 10

        await until(stopped, "some tasks were not cancelled")
        assert time.monotonic() - began < BOUND_SECONDS
        assert await in_thread(counts, database) == {"claimed": 10, "failed": TASKS}
        assert await in_thread(count, database, "cancellation") == 0
        (tmp_path / "go").touch()
        assert await values(*others) == ["done"] * 10
        await stop_command(process)
    assert sorted(task_log.ended) == sorted(f"other {n}" for n in range(10))


async def test_a_thread_that_is_to_be_cancelled_is_not_released_when_its_process_stops(
    database: str, task_log: TaskLog, tmp_path: Path
) -> None:
    result = await blocks.aenqueue(task_log.path, "stubborn", str(tmp_path / "never"))
    other = await blocks.aenqueue(task_log.path, "other", str(tmp_path / "never"))
    with command(database, "--only-work", "--threads", "2", setup=IMPORT_TASKS) as process:
        await task_log.has_begun("stubborn", "other")
        await actions.acancel(result, by="Ada")
        process.send_signal(signal.SIGQUIT)
        await until(lambda: process.poll() is not None)
    await wait_for_results(result)
    assert isinstance(result, SteadyQueueResult)
    assert result.state is TaskState.CANCELLED
    assert "cancelled by Ada" in result.errors[0].traceback
    await other.arefresh()
    assert isinstance(other, SteadyQueueResult)
    assert other.state is TaskState.READY
    assert await in_thread(count, database, "cancellation") == 0
