"""`manage.py steady_queue --async` in a real process."""

from __future__ import annotations

import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from steady_queue.aio import running
from steady_queue.processes import ProcessPrunedError
from steady_queue.store.operations.processes import prune
from steady_queue.store.outcome import report
from tests.shop import tasks
from tests.shop.tasks import add, greet
from tests.support.databases.activity import describe_activity
from tests.support.databases.tables import count, counts, query
from tests.support.processes.commands import command, read_output, wait_for_output
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, error_of, in_thread, values, wait_for_results, worker
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from steady_queue.jobs.compat import Task
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "sqlite")]


@pytest.mark.smoke
@pytest.mark.usually_on("postgres", "mariadb", "sqlite")
async def test_the_command_runs_jobs_until_it_is_signalled_to_stop(database: str) -> None:
    with command(database, "--async") as process:
        added, greeted = await add.aenqueue(1), await greet.aenqueue("Ada")
        assert await values(added, greeted) == [1, "Hello, Ada!"]
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        printed = await read_output(process)
        assert "Error" not in printed
    assert await in_thread(counts, database) == {}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("sqlite")
async def test_an_interrupt_from_the_keyboard_stops_the_command_as_well(database: str) -> None:
    with command(database, "--async") as process:
        await values(await add.aenqueue(1))
        process.send_signal(signal.SIGINT)
        assert "Error" not in await read_output(process)
    assert await in_thread(count, database, "process") == 0


async def test_the_command_ends_although_tasks_do_not_and_they_have_failed(database: str) -> None:
    """A thread, a coroutine that swallows its cancellation, a thread of an ORM lane, and one of asyncio."""
    stubborn = (
        tasks.never_ends,
        tasks.never_ends_async,
        tasks.never_ends_in_orm_lane,
        tasks.never_ends_in_another_thread,
    )
    results = [await task.aenqueue() for task in stubborn]
    with command(database, "--async") as process:
        for _ in stubborn:
            await wait_for_output(process, "began")
        process.send_signal(signal.SIGTERM)
        printed = await read_output(process)
    assert await in_thread(counts, database) == {"failed": len(stubborn)}, printed
    await wait_for_results(*results)
    assert {error_of(result) for result in results} == {"steady_queue.processes.ProcessExitError"}
    assert await in_thread(count, database, "process") == 0


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be stopped
async def test_the_command_exits_with_75_when_the_lease_is_lost_while_a_thread_runs(
    database: str, proxy: Proxy
) -> None:
    result = await tasks.never_ends.aenqueue()
    with command(database, "--async", alive=2, port=proxy.port) as process:
        await wait_for_output(process, "began")
        proxy.go()
        assert "lease lost" in await read_output(process, code=75)
    async with running(worker(threads=0)):  # at its start it prunes the dead processes of its own machine
        await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessExitError"
    assert await in_thread(query, database, "SELECT attempts FROM steady_queue_job") == [(1,)]


@pytest.mark.only_on("postgres", "mariadb")
async def test_the_command_can_be_stopped_while_it_waits_for_its_database(database: str, proxy: Proxy) -> None:
    proxy.go()
    with command(database, "--async", port=proxy.port) as process:
        await wait_for_output(process, "the database is unavailable")
        process.send_signal(signal.SIGTERM)
        await read_output(process)


@pytest.mark.only_on("sqlite")
async def test_the_command_stops_although_a_task_blocks_its_loop(database: str) -> None:
    result = await tasks.blocks_the_loop.aenqueue()
    with command(database, "--async") as process:
        await wait_for_output(process, "began")
        process.send_signal(signal.SIGTERM)
        await read_output(process, code=75)
    async with running(worker(coroutines=0)):
        await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessExitError"


async def test_a_child_of_a_task_that_exits_fails_its_job_alone(database: str) -> None:
    with command(database, "--async") as process:
        result = await tasks.exits_in_a_child.aenqueue()
        await wait_for_results(result)
        assert error_of(result) == "builtins.SystemExit"
        assert await values(await add.aenqueue(1)) == [1]
        process.send_signal(signal.SIGTERM)
        await read_output(process)


@pytest.mark.only_on("postgres", "mariadb")
async def test_the_command_can_be_stopped_while_its_server_does_not_answer(database: str, servers: Servers) -> None:
    with command(database, "--async") as process:
        await values(await add.aenqueue(1))
        servers[database].freeze()
        try:
            process.send_signal(signal.SIGTERM)
            await read_output(process)
        finally:
            servers[database].thaw()


@pytest.mark.only_on("postgres", "mariadb")  # on SQLite a frozen writer blocks all other writers
@pytest.mark.parametrize("task", [tasks.never_ends, tasks.never_ends_async])
async def test_a_process_frozen_longer_than_its_lease_exits_with_75_when_its_task_cannot_be_stopped(
    database: str, task: Task[..., Any]
) -> None:
    result = await task.aenqueue()
    with command(database, "--async", alive=2) as process:
        await wait_for_output(process, "began")
        process.send_signal(signal.SIGSTOP)
        await in_thread(prune_process, database)
        process.send_signal(signal.SIGCONT)
        await read_output(process, code=75)
    await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessPrunedError"


@pytest.mark.only_on("postgres", "mariadb")
async def test_a_process_frozen_longer_than_its_lease_stops_its_async_tasks_and_goes_on(database: str) -> None:
    result = await tasks.sleeps_for_long.aenqueue()
    with command(database, "--async", alive=2) as process:
        await wait_for_output(process, "began")
        process.send_signal(signal.SIGSTOP)
        await in_thread(prune_process, database)
        process.send_signal(signal.SIGCONT)
        await wait_for_output(process, "lost its claim")
        assert await values(await add.aenqueue(1)) == [1]
        process.send_signal(signal.SIGTERM)
        await read_output(process)
    await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessPrunedError"


def prune_process(alias: str) -> None:
    """Prune the only process, as another process does after process_alive_threshold without a heartbeat."""
    store = SyncStore(alias)
    error = report(ProcessPrunedError, "no heartbeat")
    deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while not (
        found := store.run(
            prune.prune_process(store.sql, me=uuid4(), report=lambda _: error, alive=timedelta(seconds=2))
        )
    ):
        assert time.monotonic() < deadline, f"the frozen process is not pruned:\n{describe_activity(alias)}"
        time.sleep(0.05)
    assert len(found.settled.failed) == 1
