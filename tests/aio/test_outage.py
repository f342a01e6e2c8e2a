"""The database goes away in the middle of work: the same process goes on, nothing is lost and nothing runs twice."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

import steady_queue
from steady_queue import aenqueue_all
from steady_queue.aio import outage as outage_module
from steady_queue.aio import running
from steady_queue.aio.process import connections, deadlines
from steady_queue.events import (
    ClaimsReconciled,
    DatabaseLost,
    DatabaseRecovered,
    JobFenced,
    JobReleased,
    LeaseLost,
    OutcomesNotWritten,
    ProcessRegisteredAgain,
)
from steady_queue.processes import ProcessMissingError
from steady_queue.store.operations.prune import fail_orphans
from steady_queue.store.outcome import report
from tests.support.databases.tables import count, counts, query
from tests.support.runtime import Heard, aside, ended, error_of, until, values, worker
from tests.support.servers.proxy import COMMIT
from tests.support.store.stores import SyncStore
from tests.support.tasks import recording
from tests.support.tasks.recording import book

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from steady_queue.jobs.compat import Task
    from tests.support.servers import MariaDB, Postgres
    from tests.support.servers.proxy import Proxy

    Servers = dict[str, Postgres | MariaDB]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.only_on("postgres", "mariadb"),  # SQLite has no server that could go
    pytest.mark.usually_on("postgres", "mariadb"),
]

JOBS = 2_000


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process looks often whether its database is back."""
    monkeypatch.setattr(outage_module, "MAX_PAUSE_SECONDS", 0.2)


async def is_over(alias: str) -> bool:
    return not await aside(counts, alias)


@asynccontextmanager
async def outage(server: Postgres | MariaDB) -> AsyncIterator[None]:
    """The server is down while the block runs."""
    await asyncio.to_thread(server.stop)
    try:
        yield
    finally:
        await asyncio.to_thread(server.start)


async def test_a_restart_amid_2000_running_tasks_costs_none_and_repeats_none(database: str, servers: Servers) -> None:
    heard = Heard()
    # Half of them end one after another, before and during the restart; the others when it is over.
    await aenqueue_all([recording.sleeps.bind(number / 1000, number) for number in range(JOBS // 2)])
    await aenqueue_all([recording.awaits_without_looking.bind(number) for number in range(JOBS // 2, JOBS)])
    async with running(worker(coroutines=JOBS), events=heard) as process:
        await until(lambda: len(book.runs) == JOBS)
        await asyncio.to_thread(servers[database].restart)
        assert book.now["async"] >= JOBS // 2
        book.bell.set()
        await until(lambda: is_over(database))
        owners = await aside(query, database, "SELECT DISTINCT worker_ids, attempts FROM steady_queue_job")
        assert owners == [(process.name, 1)]
        await until(lambda: len(heard.of(DatabaseRecovered)) == len(heard.of(DatabaseLost)))
    assert set(book.runs.values()) == {1}
    assert heard.of(DatabaseLost)
    assert {event.service for event in heard.of(DatabaseRecovered)} >= {
        event.service for event in heard.of(DatabaseLost)
    }
    assert await aside(count, database, "process") == 0


async def test_a_restart_amid_claims_and_settles_costs_no_job_and_repeats_none(database: str, servers: Servers) -> None:
    calls = [(recording.rests if number % 3 else recording.works).bind(number) for number in range(300)]
    await aenqueue_all(calls)
    async with running(worker(coroutines=4, threads=2)) as process:
        await until(lambda: len(book.runs) >= 20)
        await asyncio.to_thread(servers[database].restart)
        await until(lambda: is_over(database))
        owners = await aside(query, database, "SELECT DISTINCT worker_ids, attempts FROM steady_queue_job")
        assert owners == [(process.name, 1)]
    assert len(book.runs) == 300
    assert set(book.runs.values()) == {1}


async def test_what_ends_while_the_server_is_down_is_settled_when_it_is_back(database: str, servers: Servers) -> None:
    heard = Heard()
    await aenqueue_all([task.bind(number) for number in range(3) for task in (recording.awaits, recording.blocks)])
    async with running(worker(), events=heard):
        await until(lambda: sum(book.now.values()) == 6)
        async with outage(servers[database]):
            book.gate.set()
            await until(lambda: not sum(book.now.values()))
            await until(lambda: bool(heard.of(DatabaseLost)))
        await until(lambda: is_over(database))
    assert set(book.runs.values()) == {2}


async def test_a_process_that_starts_while_the_server_is_down_waits_for_it(database: str, servers: Servers) -> None:
    await recording.rests.aenqueue("waits")
    heard = Heard()
    await asyncio.to_thread(servers[database].stop)

    async def come_back() -> None:
        await until(lambda: bool(heard.of(DatabaseLost)))
        await asyncio.to_thread(servers[database].start)

    coming = asyncio.create_task(come_back())
    try:
        async with running(worker(), events=heard):
            await until(lambda: book.began == ["waits"])
    finally:
        await coming


async def test_a_stop_while_the_server_is_down_ends_soon_and_leaves_the_rest_to_others(
    database: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deadlines, "FLUSH_SECONDS", 0.5)
    result = await recording.blocks.aenqueue("settled by nobody")
    heard = Heard()
    async with AsyncExitStack() as down, running(worker(), events=heard):
        await until(lambda: sum(book.now.values()) == 1)
        await down.enter_async_context(outage(servers[database]))
        book.gate.set()
    assert [event.count for event in heard.of(OutcomesNotWritten)] == [1]
    assert await aside(counts, database) == {"claimed": 1}
    await aside(query, database, "DELETE FROM steady_queue_process")
    async with running(worker()) as process:
        await process.services.maintenance.turn()
        await ended(result)
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"
    assert book.runs["settled by nobody"] == 1


# -- past the time after which others take the process for dead -------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process counts as dead soon after its last heartbeat."""
    monkeypatch.setattr(steady_queue, "process_alive_threshold", timedelta(seconds=2))
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.2))


@contextmanager
def gone(proxy: Proxy) -> Iterator[None]:
    """The process does not reach the database while the block runs."""
    proxy.go()
    try:
        yield
    finally:
        proxy.come_back()


async def test_after_an_outage_past_the_threshold_async_tasks_go_on_in_the_same_process(
    database: str, behind: str, proxy: Proxy, impatient: None
) -> None:
    """Those that ended are settled; the others were stopped, are given back and start again, with the cause told."""
    heard = Heard()
    left: list[int] = []
    async with running(worker(), alias=behind, events=heard, leave=left.append) as process:
        finished, stopped = (
            await recording.awaits_other.aenqueue("finished"),
            await recording.awaits.aenqueue("stopped"),
        )
        await until(lambda: len(book.began) == 2)
        with gone(proxy):
            book.other_gate.set()
            await until(lambda: not sum(book.now.values()))
            assert heard.of(LeaseLost)
        await until(lambda: book.runs["stopped"] >= 2)
        book.gate.set()
        assert await values(finished, stopped) == ["finished", "stopped"]
        assert finished.worker_ids == stopped.worker_ids == [process.name]
        assert process.services.lease.is_held
    assert book.runs["finished"] == 1
    assert not left
    assert not heard.of(JobFenced)
    assert {event.threads for event in heard.of(LeaseLost)} == {0}
    releases = heard.of(JobReleased)
    assert len(releases) == book.runs["stopped"] - 1
    assert {(str(event.job_id), "heartbeat" in event.reason) for event in releases} == {(stopped.id, True)}


async def test_a_process_buried_during_an_outage_registers_anew_and_changes_nothing_of_what_was_taken(
    database: str, behind: str, proxy: Proxy, impatient: None
) -> None:
    heard = Heard()
    async with running(worker(), alias=behind, events=heard):
        result = await recording.awaits.aenqueue("taken")
        await until(lambda: book.began == ["taken"])
        with gone(proxy):
            await until(lambda: not sum(book.now.values()))
            await aside(take_everything, database)
        await until(lambda: bool(heard.of(JobFenced)) and bool(heard.of(ProcessRegisteredAgain)))
        assert await values(await recording.rests.aenqueue("next")) == ["next"]
        await result.arefresh()
    assert not heard.of(JobReleased)
    assert error_of(result) == "steady_queue.processes.ProcessMissingError"
    assert book.runs["taken"] == 1


def take_everything(alias: str) -> None:
    """What others do with a process that they take for dead."""
    store = SyncStore(alias)
    query(alias, "DELETE FROM steady_queue_process")
    assert store.run(fail_orphans(store.sql, report(ProcessMissingError, "it is gone"))) != []


async def test_a_process_whose_task_cannot_be_stopped_leaves_when_trust_is_lost(
    database: str, behind: str, proxy: Proxy, impatient: None
) -> None:
    """A thread, a coroutine that swallows its cancellation, and one behind which a thread runs: each in its process."""
    stubborn = {
        "default": recording.blocks,
        "mail": recording.swallows_cancellation,
        "reports": recording.awaits_thread,
    }
    left: dict[str, set[int]] = {queue: set() for queue in stubborn}
    async with AsyncExitStack() as processes:
        for queue, task in stubborn.items():
            process = running(worker(queues=[queue]), alias=behind, leave=left[queue].add)
            await processes.enter_async_context(process)
            await task.using(queue_name=queue).aenqueue(queue)
        await until(lambda: len(book.began) == 3)
        with gone(proxy):
            await until(lambda: all(left.values()))
        book.gate.set()
        await until(lambda: not sum(book.now.values()))
    assert left == {queue: {75} for queue in stubborn}


async def test_a_server_that_does_not_answer_is_not_trusted_longer_than_one_that_is_gone(
    database: str, servers: Servers, impatient: None
) -> None:
    heard = Heard()
    async with running(worker(), events=heard) as process:
        await recording.awaits.aenqueue("stopped")
        await until(lambda: book.began == ["stopped"])
        servers[database].freeze()
        try:
            await until(lambda: bool(heard.of(LeaseLost)))
            lost = heard.of(LeaseLost)[0].seconds
        finally:
            servers[database].thaw()
        await until(lambda: book.runs["stopped"] >= 2)
        book.gate.set()
        await until(lambda: is_over(database))
    assert lost >= process.services.lease.duration_seconds


# -- answers lost on the way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [recording.awaits, recording.alone_until_open])
async def test_a_settle_whose_answer_is_lost_is_repeated_and_the_task_is_not(
    database: str, behind: str, proxy: Proxy, task: Task[..., Any]
) -> None:
    heard = Heard()
    async with running(worker(), alias=behind, events=heard):
        result = await task.aenqueue("once")
        await until(lambda: book.began == ["once"])
        lose_the_end_of(proxy, UUID(result.id), in_transaction=database == "mariadb" or task is not recording.awaits)
        book.gate.set()
        assert await values(result) == ["once"]
        await until(lambda: bool(heard.of(DatabaseRecovered)))
    assert proxy.has_lost.is_set()
    assert book.runs["once"] == 1
    assert not heard.of(JobFenced)


async def test_jobs_whose_claim_was_answered_into_the_void_are_given_back_and_run_once(
    database: str, behind: str, proxy: Proxy
) -> None:
    heard = Heard()
    results = [await task.aenqueue(number) for number in range(3) for task in (recording.rests, recording.works)]
    if database == "postgres":  # one statement, which tells the process and, as arrays, what is wanted
        me = uuid4()
        proxy.lose_answer(re.compile(re.escape(me.bytes) + rb"\x00{3}.\x00{3}\x01", re.DOTALL))
    else:
        proxy.lose_answer(COMMIT, after=re.compile(b"INSERT INTO steady_queue_claimedexecution"))
    async with running(worker(), alias=behind, events=heard, process_id=me if database == "postgres" else None):
        assert await values(*results) == [0, 0, 1, 1, 2, 2]
    assert proxy.has_lost.is_set()
    assert [event.count for event in heard.of(ClaimsReconciled)] == [6]
    assert set(book.runs.values()) == {2}


async def test_connections_that_never_answer_again_are_replaced(
    database: str, behind: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a balancer that has lost its backend: nothing is closed, and nothing comes back."""
    monkeypatch.setattr(connections, "LONGEST_OPERATION_SECONDS", 1.0)
    heard = Heard()
    async with running(worker(), alias=behind, events=heard):
        assert await values(await recording.rests.aenqueue("before")) == ["before"]
        proxy.mute()
        assert await values(await recording.rests.aenqueue("after")) == ["after"]
    assert any("no answer within" in event.error for event in heard.of(DatabaseLost))


async def test_one_heartbeat_that_is_lost_costs_nothing(
    database: str, behind: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "process_heartbeat_interval", timedelta(seconds=0.2))
    heard, id_ = Heard(), uuid4()
    result = await recording.awaits.aenqueue("runs on")
    proxy.lose_answer(naming(id_), after=re.compile(b"SET last_heartbeat_at"))
    async with running(worker(), alias=behind, events=heard, process_id=id_) as process:
        await until(lambda: book.began == ["runs on"])
        await until(lambda: any(event.service == "heartbeat" for event in heard.of(DatabaseRecovered)))
        before = process.services.lease.expires_at
        await until(lambda: process.services.lease.expires_at > before)
        book.gate.set()
        assert await values(result) == ["runs on"]
    assert not heard.of(LeaseLost)
    assert not heard.of(ProcessRegisteredAgain)


def lose_the_end_of(proxy: Proxy, id_: UUID, *, in_transaction: bool) -> None:
    """The answer to the next statement with this id, or to the commit of its transaction, does not come."""
    if in_transaction:
        proxy.lose_answer(COMMIT, after=naming(id_))
    else:
        proxy.lose_answer(naming(id_))


def naming(id_: UUID) -> re.Pattern[bytes]:
    """Found in a statement with this id, on every server."""
    return re.compile(b"|".join(map(re.escape, (id_.bytes, id_.hex.encode(), str(id_).encode()))))
