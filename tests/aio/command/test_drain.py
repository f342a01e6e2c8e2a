"""`--drain`: the command ends by itself when its queues have nothing left to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.shop.tasks import add, charge, greet, send_mail
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, read_output
from tests.support.runtime import in_thread
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]

PAUSE = "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES ('reports', '2030-01-01 00:00:00')"


async def returned(*results: TaskResult[Any]) -> list[Any]:
    """The return values of the tasks that have finished."""
    for result in results:
        await result.arefresh()
    return [result.return_value for result in results]


@pytest.mark.smoke
@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervisor", "async"])
async def test_it_ends_when_all_tasks_but_scheduled_ones_and_those_of_other_or_paused_queues_are_done(
    database: str, arguments: list[str]
) -> None:
    await in_thread(query, database, PAUSE)
    done: list[TaskResult[Any]] = [
        await add.aenqueue(1),
        await greet.aenqueue("Ada"),
        await add.using(run_after=timedelta(seconds=2)).aenqueue(2),
    ]
    charged = [await charge.aenqueue(7) for _ in range(3)]
    await add.using(run_after=timedelta(hours=1)).aenqueue(3)
    await send_mail.aenqueue("ada@example.com")
    paused = charge.using(queue_name="reports")
    await paused.aenqueue(8)
    await paused.aenqueue(8)
    with command(database, "--drain", "--queues", "default,reports", *arguments) as process:
        printed = await read_output(process)
    assert "until the queues are empty" in printed
    assert "died" not in printed
    assert await returned(*done) == [1, "Hello, Ada!", 2]
    assert await returned(*charged) == [None] * 3
    assert await in_thread(counts, database) == {"scheduled": 1, "ready": 2, "blocked": 1}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervisor", "async"])
async def test_it_ends_although_excluded_queues_have_tasks(database: str, arguments: list[str]) -> None:
    done = await add.aenqueue(1)
    await send_mail.aenqueue("ada@example.com")
    environ = {"STEADY_QUEUE_EXCLUDE_QUEUES": "mail"}
    with command(database, "--drain", *arguments, environ=environ) as process:
        printed = await read_output(process)
    assert "  worker      * except mail: 100 coroutines, 3 threads\n" in printed
    assert "Steady Queue stopped: 1 task done, 0 failed, 0 released in " in printed
    assert await returned(done) == [1]
    assert await in_thread(counts, database) == {"ready": 1}


async def test_all_processes_of_one_loop_and_its_copies_end(database: str) -> None:
    results = [await add.aenqueue(number) for number in range(20)]
    with command(database, "--drain", "--async", "--processes", "2") as process:
        await read_output(process)
    assert await returned(*results) == list(range(20))
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.usually_on("postgres", "mariadb", "sqlite")
@pytest.mark.parametrize("arguments", [[], ["--async"]], ids=["supervisor", "async"])
async def test_it_does_not_wait_for_a_task_of_an_unknown_lane_and_reports_it(
    database: str, arguments: list[str]
) -> None:
    await in_thread(lambda: SyncStore(database).enqueue(job(lane=7)))
    result = await add.aenqueue(1)
    with command(database, "--drain", *arguments) as process:
        printed = await read_output(process)
    assert await returned(result) == [1]
    assert "the queue 'default' has ready tasks of the lane 7, which this version cannot run" in printed
    assert await in_thread(counts, database) == {"ready": 1}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("sqlite")
async def test_it_waits_for_no_dispatcher_and_lets_no_limit_of_tasks_end_it(database: str) -> None:
    results = [await add.aenqueue(number) for number in range(6)]
    await add.using(run_after=timedelta(hours=1)).aenqueue(7)
    await in_thread(query, database, "UPDATE steady_queue_scheduledexecution SET scheduled_at = '2001-01-01 00:00:00'")
    limits = ("--threads", "1", "--max-tasks", "1")
    with command(database, "--drain", "--async", "--only-work", *limits) as process:
        await read_output(process)
    assert await returned(*results) == list(range(6))
    assert await in_thread(counts, database) == {"scheduled": 1}


@pytest.mark.only_on("sqlite")
async def test_empty_queues_end_it_at_once_also_when_the_environment_requests_the_drain(database: str) -> None:
    with command(database, environ={"STEADY_QUEUE_DRAIN": "yes"}) as process:
        assert "Error" not in await read_output(process)
    assert await in_thread(count, database, "process") == 0
