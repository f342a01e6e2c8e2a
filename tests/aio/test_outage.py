"""The database is unavailable while tasks run: the same process goes on, nothing is lost and nothing runs twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import steady_queue
from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.aio.process import deadlines
from steady_queue.events import (
    DatabaseLost,
    DatabaseRecovered,
    JobFenced,
    JobReleased,
    LeaseLost,
    OutcomesNotWritten,
    ProcessRegisteredAgain,
)
from steady_queue.processes import ProcessMissingError
from steady_queue.store.operations.processes.prune import end_orphans
from steady_queue.store.outcome import report
from tests.support.databases.tables import count, counts, query
from tests.support.runtime import EmittedEvents, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.store.stores import SyncStore
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("short_outage_pauses"),
    pytest.mark.only_on("postgres", "mariadb"),  # SQLite has no server that could be stopped
    pytest.mark.usually_on("postgres", "mariadb"),
]

JOBS = 2_000


async def all_jobs_finished(alias: str) -> bool:
    return not await in_thread(counts, alias)


@asynccontextmanager
async def outage(server: Postgres | MariaDB) -> AsyncIterator[None]:
    """The server is down while the block runs."""
    await asyncio.to_thread(server.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(server.start)


async def test_a_restart_during_2000_running_tasks_loses_none_and_repeats_none(database: str, servers: Servers) -> None:
    emitted = EmittedEvents()
    # Half of the tasks end one after another, before and during the restart; the other half after it.
    await aenqueue_all([recording.sleeps.bind(number / 1000, number) for number in range(JOBS // 2)])
    await aenqueue_all([recording.awaits_event.bind(number) for number in range(JOBS // 2, JOBS)])
    async with running(worker(coroutines=JOBS), events=emitted) as process:
        await until(lambda: len(task_record.runs) == JOBS)
        await asyncio.to_thread(servers[database].restart)
        assert task_record.running["async"] >= JOBS // 2
        task_record.wake_event.set()
        await until(lambda: all_jobs_finished(database))
        owners = await in_thread(query, database, "SELECT DISTINCT worker_ids, attempts FROM steady_queue_job")
        assert owners == [(process.name, 1)]
        await until(lambda: len(emitted.of(DatabaseRecovered)) == len(emitted.of(DatabaseLost)))
    assert set(task_record.runs.values()) == {1}
    assert emitted.of(DatabaseLost)
    assert {event.service for event in emitted.of(DatabaseRecovered)} >= {
        event.service for event in emitted.of(DatabaseLost)
    }
    assert await in_thread(count, database, "process") == 0


async def test_a_restart_during_claims_and_settles_loses_no_job_and_repeats_none(
    database: str, servers: Servers
) -> None:
    calls = [(recording.rests if number % 3 else recording.works).bind(number) for number in range(300)]
    await aenqueue_all(calls)
    async with running(worker(coroutines=4, threads=2)) as process:
        await until(lambda: len(task_record.runs) >= 20)
        await asyncio.to_thread(servers[database].restart)
        await until(lambda: all_jobs_finished(database))
        owners = await in_thread(query, database, "SELECT DISTINCT worker_ids, attempts FROM steady_queue_job")
        assert owners == [(process.name, 1)]
    assert len(task_record.runs) == 300
    assert set(task_record.runs.values()) == {1}


async def test_what_ends_while_the_server_is_down_is_settled_when_it_is_back(database: str, servers: Servers) -> None:
    emitted = EmittedEvents()
    await aenqueue_all([task.bind(number) for number in range(3) for task in (recording.awaits, recording.blocks)])
    async with running(worker(), events=emitted):
        await until(lambda: sum(task_record.running.values()) == 6)
        async with outage(servers[database]):
            task_record.gate.set()
            await until(lambda: not sum(task_record.running.values()))
            await until(lambda: bool(emitted.of(DatabaseLost)))
        await until(lambda: all_jobs_finished(database))
    assert set(task_record.runs.values()) == {2}


async def test_a_process_that_starts_while_the_server_is_down_waits_for_it(database: str, servers: Servers) -> None:
    await recording.rests.aenqueue("waits")
    emitted = EmittedEvents()
    await asyncio.to_thread(servers[database].stop)

    async def come_back() -> None:
        await until(lambda: bool(emitted.of(DatabaseLost)))
        await asyncio.to_thread(servers[database].start)

    coming = asyncio.create_task(come_back())
    try:
        async with running(worker(), events=emitted):
            await until(lambda: task_record.began == ["waits"])
    finally:
        await coming


async def test_a_stop_while_the_server_is_down_ends_soon_and_leaves_the_claims_to_other_processes(
    database: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "FLUSH_SECONDS", 0.5)
    result = await recording.blocks.aenqueue("never settled")
    emitted = EmittedEvents()
    async with AsyncExitStack() as down, running(worker(), events=emitted):
        await until(lambda: sum(task_record.running.values()) == 1)
        await down.enter_async_context(outage(servers[database]))
        task_record.gate.set()
    assert [event.count for event in emitted.of(OutcomesNotWritten)] == [1]
    assert await in_thread(counts, database) == {"claimed": 1}
    await in_thread(query, database, "DELETE FROM steady_queue_process")
    async with running(worker()) as process:
        await process.services.maintenance.turn()
        await wait_for_results(result)
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"
    assert task_record.runs["never settled"] == 1


# -- outages longer than process_alive_threshold ----------------------------------------------------------------------


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process counts as dead soon after its last heartbeat."""
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=2))
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.2))


@contextmanager
def unreachable(proxy: Proxy) -> Iterator[None]:
    """The process does not reach the database while the block runs."""
    proxy.go()
    try:
        yield
    finally:
        proxy.come_back()


async def test_after_an_outage_longer_than_the_threshold_async_tasks_go_on_in_the_same_process(
    database: str, proxied: str, proxy: Proxy, short_lease: None
) -> None:
    """Tasks that ended are settled; the others are stopped, released with the cause and started again."""
    emitted = EmittedEvents()
    left: list[int] = []
    async with running(worker(), alias=proxied, events=emitted, leave=left.append) as process:
        finished, stopped = (
            await recording.awaits_other.aenqueue("finished"),
            await recording.awaits.aenqueue("stopped"),
        )
        await until(lambda: len(task_record.began) == 2)
        with unreachable(proxy):
            task_record.other_gate.set()
            await until(lambda: not sum(task_record.running.values()))
            assert emitted.of(LeaseLost)
        await until(lambda: task_record.runs["stopped"] >= 2)
        task_record.gate.set()
        assert await values(finished, stopped) == ["finished", "stopped"]
        assert finished.worker_ids == stopped.worker_ids == [process.name]
        assert process.services.lease.is_held
    assert task_record.runs["finished"] == 1
    assert not left
    assert not emitted.of(JobFenced)
    assert {event.threads for event in emitted.of(LeaseLost)} == {0}
    releases = emitted.of(JobReleased)
    assert len(releases) == task_record.runs["stopped"] - 1
    assert {(str(event.job_id), "heartbeat" in event.reason) for event in releases} == {(stopped.id, True)}


async def test_a_process_pruned_during_an_outage_registers_again_and_changes_none_of_its_lost_claims(
    database: str, proxied: str, proxy: Proxy, short_lease: None
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), alias=proxied, events=emitted):
        result = await recording.awaits.aenqueue("taken")
        await until(lambda: task_record.began == ["taken"])
        with unreachable(proxy):
            await until(lambda: not sum(task_record.running.values()))
            await in_thread(fail_all_claims, database)
        await until(lambda: bool(emitted.of(JobFenced)) and bool(emitted.of(ProcessRegisteredAgain)))
        assert await values(await recording.rests.aenqueue("next")) == ["next"]
        await result.arefresh()
    assert not emitted.of(JobReleased)
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"
    assert task_record.runs["taken"] == 1


def fail_all_claims(alias: str) -> None:
    """What the maintenance of another process does with a process that it takes for dead."""
    store = SyncStore(alias)
    query(alias, "DELETE FROM steady_queue_process")
    assert store.run(end_orphans(store.sql, report(ProcessMissingError, "it is gone"))).failed


async def test_a_process_whose_task_cannot_be_stopped_exits_when_its_lease_is_lost(
    database: str, proxied: str, proxy: Proxy, short_lease: None
) -> None:
    """A thread, a coroutine that swallows its cancellation, and one that waits for a thread, each in its process."""
    stubborn = {
        "default": recording.blocks,
        "mail": misbehaving.swallows_cancellation,
        "reports": recording.awaits_thread,
    }
    left: dict[str, set[int]] = {queue: set() for queue in stubborn}
    async with AsyncExitStack() as processes:
        for queue, task in stubborn.items():
            process = running(worker(queues=[queue]), alias=proxied, leave=left[queue].add)
            await processes.enter_async_context(process)
            await task.using(queue_name=queue).aenqueue(queue)
        await until(lambda: len(task_record.began) == 3)
        with unreachable(proxy):
            await until(lambda: all(left.values()))
        task_record.gate.set()
        await until(lambda: not sum(task_record.running.values()))
    assert left == {queue: {75} for queue in stubborn}


async def test_the_lease_expires_while_the_server_does_not_reply(
    database: str, servers: Servers, short_lease: None
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted) as process:
        await recording.awaits.aenqueue("stopped")
        await until(lambda: task_record.began == ["stopped"])
        servers[database].freeze()
        try:
            await until(lambda: bool(emitted.of(LeaseLost)))
            lost = emitted.of(LeaseLost)[0].seconds
        finally:
            servers[database].thaw()
        await until(lambda: task_record.runs["stopped"] >= 2)
        task_record.gate.set()
        await until(lambda: all_jobs_finished(database))
    assert lost >= process.services.lease.duration_seconds
