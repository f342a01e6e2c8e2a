"""Threads that are stuck in tasks which have timed out: the supervisor replaces their process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.shop import tasks
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, stop_command, wait_for_output
from tests.support.processes.process_rows import exists, wait_for_worker
from tests.support.runtime import error_of, in_thread, until, values, wait_for_results

if TYPE_CHECKING:
    from pathlib import Path

    from steady_queue.jobs.compat import TaskResult

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]

EXIT_ERROR = "steady_queue.processes.ProcessExitError"
#: A manage.py whose processes find soon that a thread is stuck.
SOON_STUCK = """
from steady_queue.aio.worker.control import timeouts
timeouts.STUCK_THREAD_SECONDS = 0.1
"""
ONE_THREAD = ("--only-work", "--threads", "1", "--coroutines", "2")


async def test_a_process_whose_threads_are_all_stuck_is_replaced_and_their_tasks_have_failed(
    database: str, tmp_path: Path
) -> None:
    other = await tasks.awaits_file.aenqueue(str(tmp_path / "file"))
    # So long that only a stop which waits for the stuck thread takes it all.
    with command(database, *ONE_THREAD, shutdown_timeout_seconds=300, setup=SOON_STUCK) as process:
        await wait_for_output(process, "began")
        first = await wait_for_worker(database)
        stuck = await tasks.never_ends.using(timeout=0.1).aenqueue()
        await wait_for_output(process, "has run for", "in block_for_ever", "1 of 1 threads", "is being recycled")
        # The replacement works while the last tasks of the first process end.
        second = await wait_for_worker(database, other_than=first)
        assert await values(await tasks.add.aenqueue(1)) == [1]
        assert exists(first)
        assert not (await _refreshed(stuck)).is_finished
        (tmp_path / "file").touch()
        assert await values(other) == ["done"]
        await until(lambda: not exists(first), "the first stays")
        await wait_for_results(stuck)
        assert exists(second)
        await stop_command(process)
    assert error_of(stuck) == EXIT_ERROR
    assert await in_thread(counts, database) == {"failed": 1}
    assert await in_thread(count, database, "process") == 0
    assert await in_thread(query, database, "SELECT DISTINCT attempts FROM steady_queue_job") == [(1,)]


async def test_other_tasks_have_the_shutdown_timeout_and_are_released_then(database: str, tmp_path: Path) -> None:
    with command(database, *ONE_THREAD, shutdown_timeout_seconds=0.2, setup=SOON_STUCK) as process:
        other = await tasks.awaits_file.aenqueue(str(tmp_path / "file"))
        await wait_for_output(process, "began")
        first = await wait_for_worker(database)
        stuck = await tasks.never_ends.using(timeout=0.1).aenqueue()
        await until(lambda: not exists(first), "the first stays")
        (tmp_path / "file").touch()
        assert await values(other) == ["done"]
        await wait_for_results(stuck)
        await stop_command(process)
    assert error_of(stuck) == EXIT_ERROR
    # Released, without an attempt: only the second one counts.
    assert await in_thread(query, database, "SELECT DISTINCT attempts FROM steady_queue_job") == [(1,)]


async def test_a_task_of_a_stuck_thread_is_retried_in_another_process_if_lost_tasks_are(
    database: str, tmp_path: Path
) -> None:
    with command(database, "--threads", "1", setup=SOON_STUCK) as process:
        result = await tasks.hangs_once.aenqueue(str(tmp_path / "file"))
        assert await values(result) == ["done"]
        await stop_command(process)
    assert [error.exception_class_path for error in result.errors] == [EXIT_ERROR]
    assert len(set(result.worker_ids)) == 2


async def test_a_smaller_number_of_stuck_threads_can_be_set(database: str) -> None:
    options = ("--only-work", "--threads", "3", "--max-stuck-threads", "1")
    with command(database, *options, setup=SOON_STUCK) as process:
        first = await wait_for_worker(database)
        stuck = await tasks.never_ends.using(timeout=0.1).aenqueue()
        await wait_for_output(process, "1 of 3 threads", "is being recycled")
        await wait_for_worker(database, other_than=first)
        await wait_for_results(stuck)
        await stop_command(process)
    assert error_of(stuck) == EXIT_ERROR


async def test_a_thread_that_timed_out_is_not_released_by_a_stop_and_one_that_did_not_is(
    database: str, tmp_path: Path
) -> None:
    with command(database, "--only-work", "--threads", "2", shutdown_timeout_seconds=0.2) as process:
        stuck = await tasks.never_ends.using(timeout=0.1).aenqueue()
        await wait_for_output(process, "in block_for_ever")
        waits = await tasks.blocks_until_file.using(timeout=3000).aenqueue(str(tmp_path / "file"))
        await wait_for_output(process, "began")
        await stop_command(process)
    await wait_for_results(stuck)
    assert error_of(stuck) == EXIT_ERROR
    assert not (await _refreshed(waits)).is_finished
    assert await in_thread(counts, database) == {"failed": 1, "ready": 1}


async def test_without_a_supervisor_the_process_goes_on(database: str) -> None:
    with command(database, "--async", "--threads", "1", setup=SOON_STUCK) as process:
        await tasks.never_ends.using(timeout=0.1).aenqueue()
        await wait_for_output(process, "1 of 1 threads")
        assert await values(await tasks.greet.aenqueue("Ada")) == ["Hello, Ada!"]
        printed = await stop_command(process)
    assert "recycled" not in printed
    assert await in_thread(counts, database) == {"failed": 1}


async def _refreshed(result: TaskResult[Any]) -> TaskResult[Any]:
    await result.arefresh()
    return result
