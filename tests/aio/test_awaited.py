"""Waiting processes are notified by the workers that end their tasks; without notifications they poll."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

import steady_queue
from steady_queue import LogLine, Progress, StateChanged, TaskContext, TaskState, task
from steady_queue.aio import running
from steady_queue.aio.timing import SystemClock
from steady_queue.aio.worker import awaited
from steady_queue.aio.worker.awaited import Announced
from steady_queue.db import result_channel
from steady_queue.db import watcher as watchers
from steady_queue.db.aliases import connection_parameters
from steady_queue.db.watch import Schedule
from steady_queue.errors import StoreUnavailable
from steady_queue.store.drivers import postgres
from steady_queue.store.names import RESULTS_CHANNEL
from steady_queue.store.operations.notify import parse_ids
from tests.aio.supervisor.tasks import IMPORT_TASKS, awaits
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import query
from tests.support.processes.commands import command, stop_command
from tests.support.runtime import enqueue_each, in_thread, until, values, worker
from tests.support.servers import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record
from tests.support.watches import has_read_all, is_failing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.servers import MariaDB
    from tests.support.servers.proxy import Proxy

pytestmark = pytest.mark.anyio

#: After the first read, a job is not read again before the test ends.
NEVER = Schedule(0.0, 60.0, 60.0)
LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN%%' AND query {} '%%results%%'"


@asynccontextmanager
async def worker_process(database: str) -> AsyncIterator[None]:
    """A worker in a process of its own, which listens where the database can notify it."""
    with command(database, "--async", setup=IMPORT_TASKS) as process:
        if database == "postgres" and steady_queue.notify:
            await until(lambda: in_thread(is_listening, database))
        yield
        await stop_command(process)


def is_listening(database: str) -> bool:
    return bool(query(database, LISTENERS.format("NOT ILIKE")))


@pytest.mark.only_on("postgres")
async def test_a_worker_of_another_process_notifies_those_who_wait(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LISTENING", NEVER)
    monkeypatch.setattr(watchers, "POLLING", NEVER)
    log, go_on = tmp_path / "log", tmp_path / "go on"
    async with worker_process(database):
        result = await awaits.aenqueue(str(log), "one", str(go_on))
        other = await awaits.aenqueue(str(log), "two", str(go_on))
        waiting = asyncio.create_task(result.awaited(timeout=20))
        in_sync_code = asyncio.create_task(in_thread(other.wait, 20))
        updates = other.updates(timeout=20)
        await anext(updates)
        await until(lambda: log.exists() and log.read_text().count("began") == 2)
        await until(lambda: has_read_all(database))
        await in_thread(go_on.touch)
        assert (await waiting).return_value == "done"
        assert (await in_sync_code).state is TaskState.FINISHED
        assert [update async for update in updates][-1] == StateChanged(TaskState.FINISHED, 1)


@pytest.mark.usually_on("mariadb", "sqlite")
async def test_without_notifications_the_end_of_a_task_is_found_by_polling(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "notify", False)
    log, go_on = tmp_path / "log", tmp_path / "go on"
    async with worker_process(database):
        result = await awaits.aenqueue(str(log), "one", str(go_on))
        waiting = asyncio.create_task(result.awaited(timeout=20))
        await until(log.exists)
        await in_thread(go_on.touch)
        assert (await waiting).return_value == "done"


@pytest.mark.usually_on("postgres", "mariadb", "sqlite")
async def test_a_worker_of_the_same_process_wakes_those_who_wait_without_the_database(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LISTENING", NEVER)
    monkeypatch.setattr(watchers, "POLLING", NEVER)
    async with running(worker()):
        result = await recording.awaits.aenqueue("one")
        waiting = asyncio.create_task(result.awaited(timeout=20))
        await until(lambda: has_read_all(database) and task_record.began == ["one"])
        task_record.gate.set()
        assert (await waiting).return_value == "one"


async def test_updates_show_that_a_task_has_started_and_ended(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "LISTENING", NEVER)
    monkeypatch.setattr(watchers, "POLLING", NEVER)
    result = await recording.awaits.aenqueue("one")
    updates = result.updates(timeout=20)
    assert await anext(updates) == StateChanged(TaskState.READY, 0)
    async with running(worker()):
        assert await anext(updates) == StateChanged(TaskState.RUNNING, 1)
        task_record.gate.set()
        assert await anext(updates) == StateChanged(TaskState.FINISHED, 1)


@pytest.mark.usually_on("postgres", "mariadb", "sqlite")
async def test_updates_have_the_progress_and_the_log_that_a_task_reports(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "LISTENING", NEVER)
    monkeypatch.setattr(watchers, "POLLING", NEVER)
    result = await reports.aenqueue()
    updates = result.updates(timeout=20)
    async with running(worker()):
        found = [update async for update in updates]
    assert [update.message for update in found if isinstance(update, LogLine)] == ["first", "second"]
    assert [update.done for update in found if isinstance(update, Progress)][-1] == 2
    assert found[-1] == StateChanged(TaskState.FINISHED, 1)
    assert result.progress is not None
    assert (result.progress.done, [line.message for line in result.log]) == (2, ["first", "second"])


@task(takes_context=True)
async def reports(context: TaskContext) -> None:
    context.log("first")
    context.progress(1, 2)
    context.log("second")
    context.progress(2, 2)


@pytest.mark.only_on("postgres")
async def test_a_lost_connection_of_the_waiting_process_is_replaced(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_channel, "RECONNECT_SECONDS", 0.0)
    result = await recording.awaits.aenqueue("one")
    waiting = asyncio.create_task(result.awaited(timeout=20))
    mine = LISTENERS.format("ILIKE")
    await until(lambda: in_thread(lambda: bool(query(database, mine))))
    ((pid,),) = await in_thread(query, database, mine)
    await in_thread(query, database, f"SELECT pg_terminate_backend({pid})")
    await until(lambda: in_thread(lambda: query(database, mine) not in ([], [(pid,)])))
    async with running(worker()):
        task_record.gate.set()
        assert (await waiting).return_value == "one"


@pytest.fixture
def pooled(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[str]:
    """An alias of the database through a pooler in transaction mode."""
    server = servers[database]
    assert isinstance(server, Postgres)
    with PgBouncer(server) as bouncer:
        settings = twin_settings(database, PORT=str(bouncer.port), DISABLE_SERVER_SIDE_CURSORS=True)
        with extra_database("postgres_bounced", settings) as alias, pointed_at(alias):
            yield alias


@pytest.mark.only_on("postgres")
@pytest.mark.parametrize("listens", [False, True], ids=["without listening", "although it listens"])
async def test_behind_a_pooler_the_end_of_a_task_is_found_by_polling(
    database: str, pooled: str, listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if listens:
        monkeypatch.setattr(result_channel, "is_pooled_by_server", lambda alias: False)
    monkeypatch.setattr(watchers, "LISTENING", NEVER)
    result = await recording.awaits.aenqueue("one")
    async with running(worker(), alias=database):
        waiting = asyncio.create_task(result.awaited(timeout=20))
        await until(lambda: has_read_all(pooled))
        task_record.gate.set()
        assert (await waiting).return_value == "one"


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.usually_on("postgres", "mariadb")
async def test_waiting_goes_on_after_an_outage_of_the_database(database: str, proxied: str, proxy: Proxy) -> None:
    result = await recording.awaits.aenqueue("one")
    async with running(worker(), alias=database):
        with pointed_at(proxied):
            waiting = asyncio.create_task(result.awaited(timeout=20))
            await until(lambda: has_read_all(proxied))
            proxy.go()
            task_record.gate.set()
            await until(lambda: is_failing(proxied))
            proxy.come_back()
            assert (await waiting).return_value == "one"


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.usually_on("postgres", "mariadb")
async def test_waiting_fails_after_a_long_outage(
    database: str, proxied: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "OUTAGE_SECONDS", 0.0)
    result = await recording.awaits.aenqueue("one")
    proxy.refuse()
    with pointed_at(proxied), pytest.raises(StoreUnavailable):
        await result.awaited(timeout=20)


@pytest.mark.only_on("postgres")
async def test_a_worker_notifies_only_those_who_wait(database: str) -> None:
    payloads: list[str] = []
    link = await postgres.listen(connection_parameters(database), RESULTS_CHANNEL, payloads.append, lambda: None)
    try:
        async with running(worker()) as process:
            await values(*await enqueue_each(recording.rests, range(5)))
            announced, other = await enqueue_each(recording.awaits, ["announced", "other"])
            process.services.awaited.announce_awaited(UUID(announced.id).hex)
            task_record.gate.set()
            await values(announced, other)
            await until(lambda: payloads == [UUID(announced.id).hex])
    finally:
        await link.close()


# -- what a worker knows of other processes ---------------------------------------------------------------------------


class FixedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_announcements_expire() -> None:
    clock = FixedClock()
    announced = Announced(clock)
    first, second = uuid4(), uuid4()
    announced.add([first])
    clock.now = 20.0
    announced.add([second])
    assert announced.among([first, second]) == [first, second]
    clock.now = 40.0
    announced.add([second])
    assert announced.among([first, second]) == [second]


def test_the_number_of_announcements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "MAX_ANNOUNCED", 3)
    announced = Announced(SystemClock())
    ids = [uuid4() for _ in range(5)]
    announced.add(ids)
    assert announced.among(ids) == ids[2:]


@pytest.mark.parametrize("payload", ["", "no", "1,2", "019a0000000070008000000000000000,x"])
def test_a_payload_of_another_program_announces_nothing(payload: str) -> None:
    assert parse_ids(payload) == []
