"""Async tasks beside each other on few ORM threads: no task notices the transactions and the losses of another."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.db import connections

import steady_queue
from steady_queue.aio import running
from steady_queue.events import OrmCallsWaiting, TransactionRolledBack
from tests.shop.models import Customer
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import query
from tests.support.runtime import Heard, aside, ended, enqueued, error_of, until, values, worker
from tests.support.servers import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.tasks import orm
from tests.support.tasks.recording import book

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import MariaDB
    from tests.support.servers.server_process import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

#: SQLite has a single writer and no connection that a server could end: nobody can write beside an open transaction.
SERVERS = pytest.mark.only_on("postgres", "mariadb")
LEFT_OPEN = "steady_queue.errors.TransactionLeftOpen"
THREADS = 8


def _names(alias: str) -> set[str]:
    return set(Customer.objects.using(alias).values_list("name", flat=True))


async def written(alias: str) -> set[str]:
    return await aside(_names, alias)


def _ways(database: str) -> list[str]:
    """How a transaction can be left open so that it is noticed: mysqlclient does not tell of one begun by hand."""
    return ["atomic", "autocommit off"] + ([] if database == "mariadb" else ["by hand"])


@contextmanager
def short_wait(milliseconds: int = 300) -> Iterator[None]:
    before = steady_queue.orm_thread_timeout
    steady_queue.orm_thread_timeout = timedelta(milliseconds=milliseconds)
    try:
        yield
    finally:
        steady_queue.orm_thread_timeout = before


@contextmanager
def settings_changed(alias: str, **changes: Any) -> Iterator[None]:
    """Other settings for connections that are opened from now on; each thread has a copy from its first use."""
    settings = connections.databases[alias]
    before = {name: settings[name] for name in changes}
    settings.update(changes)
    try:
        yield
    finally:
        settings.update(before)


# -- transactions -----------------------------------------------------------------------------------------------------


@SERVERS
async def test_what_neighbours_of_an_open_transaction_write_is_kept(database: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        holders = [await orm.leaves_open.aenqueue(f"holder {way}", way) for way in _ways(database)]
        await until(lambda: book.now["holds"] == len(holders))
        neighbours = [f"neighbour {number}" for number in range(80)]
        await values(*await enqueued(orm.writes, neighbours))
        book.gate.set()
        await ended(*holders)
    assert {error_of(holder) for holder in holders} == {LEFT_OPEN}
    assert "on the database" in holders[0].errors[0].traceback
    assert await written(database) == set(neighbours)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@SERVERS
async def test_neighbours_wait_while_every_thread_is_held_and_lose_nothing(database: str, commits: bool) -> None:
    async with running(worker(coroutines=200, orm_lanes=THREADS)):
        names = [f"holder {number}" for number in range(THREADS)]
        holders = [await orm.uses_atomic.aenqueue(name, commits=commits) for name in names]
        await until(lambda: book.now["holds"] == THREADS)
        neighbours = [f"neighbour {number}" for number in range(120)]
        results = await enqueued(orm.writes, neighbours)
        await until(lambda: book.now["writes"] == len(neighbours))
        assert not await written(database)
        book.gate.set()
        await values(*holders, *results)
    kept = {kind for name in names for kind in (name, f"{name} again")} if commits else set()
    assert await written(database) == kept | set(neighbours)


async def test_a_thread_goes_on_after_a_task_that_left_a_transaction_open(database: str) -> None:
    book.gate.set()
    async with running(worker(coroutines=1, orm_lanes=1)):
        for way in _ways(database):
            (left,) = await ended(await orm.leaves_open.aenqueue("lost", way))
            assert error_of(left) == LEFT_OPEN
            await values(await orm.writes.aenqueue(f"after {way}"))
    assert await written(database) == {f"after {way}" for way in _ways(database)}


async def test_a_task_that_raises_inside_a_transaction_fails_with_its_own_error(database: str) -> None:
    async with running(worker(coroutines=10, orm_lanes=1)):
        (raised,) = await ended(await orm.raises_in_transaction.aenqueue("lost"))
        assert error_of(raised) == "builtins.LookupError"
        await values(await orm.writes.aenqueue("after"))
    assert await written(database) == {"after"}


async def test_a_task_that_is_stopped_inside_a_transaction_leaves_nothing_of_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(0))
    result = await orm.is_stopped_in_transaction.aenqueue("stopped")
    async with running(worker(coroutines=1, orm_lanes=1)):
        await until(lambda: book.now["holds"] == 1)
    async with running(worker(coroutines=1, orm_lanes=1)):
        await values(result)
    assert not await written(database)


@pytest.mark.parametrize("how", ["atomic", "autocommit off"])
async def test_a_sync_task_that_leaves_a_transaction_open_fails(database: str, how: str) -> None:
    async with running(worker(threads=1)):
        (left,) = await ended(await orm.leaves_open_in_thread.aenqueue(how))
        assert error_of(left) == LEFT_OPEN
    assert not await written(database)


async def test_child_tasks_of_a_holder_use_its_transaction(database: str) -> None:
    async with running(worker(coroutines=4, orm_lanes=2)):
        await values(await orm.gathers.aenqueue("child"))
    assert await written(database) == {f"child {number}" for number in range(5)}


@SERVERS
async def test_a_call_that_waits_too_long_fails_and_names_the_holder(database: str) -> None:
    heard = Heard()
    with short_wait():
        async with running(worker(coroutines=2, orm_lanes=1), events=heard):
            holder = await orm.uses_atomic.aenqueue("holder", commits=True)
            await until(lambda: book.now["holds"] == 1)
            (late,) = await ended(await orm.writes.aenqueue("late"))
            book.gate.set()
            await values(holder, await orm.writes.aenqueue("after"))
    assert error_of(late) == "steady_queue.errors.OrmThreadTimeout"
    assert f"tests.support.tasks.orm.uses_atomic {UUID(holder.id)}" in late.errors[0].traceback
    assert await written(database) == {"holder", "holder again", "after"}


@SERVERS
async def test_a_call_that_waits_is_reported_once_with_the_holder(database: str) -> None:
    heard = Heard()
    async with running(worker(coroutines=2, orm_lanes=1), events=heard):
        holder = await orm.uses_atomic.aenqueue("holder", commits=True)
        await until(lambda: book.now["holds"] == 1)
        neighbour = await orm.writes.aenqueue("neighbour")
        await until(lambda: bool(heard.of(OrmCallsWaiting)))
        book.gate.set()
        await values(holder, neighbour)
    (waiting,) = heard.of(OrmCallsWaiting)
    assert waiting.task.startswith("tests.support.tasks.orm.writes")
    assert waiting.holders.startswith("tests.support.tasks.orm.uses_atomic")


async def test_a_transaction_that_is_opened_after_the_task_has_ended_is_rolled_back(database: str) -> None:
    heard = Heard()
    orm.children.clear()
    async with running(worker(coroutines=4, orm_lanes=1), events=heard):
        await values(await orm.leaves_child_behind.aenqueue("late"))
        book.gate.set()
        await until(lambda: bool(heard.of(TransactionRolledBack)))
        await values(await orm.writes.aenqueue("after"))
        await orm.children[0]
    assert heard.of(TransactionRolledBack)[0].task.startswith("tests.support.tasks.orm.leaves_child_behind")
    assert await written(database) == {"after"}


# -- cursors ----------------------------------------------------------------------------------------------------------


@SERVERS
async def test_an_iteration_keeps_its_connection_while_neighbours_work_and_age_closes_others(database: str) -> None:
    rows = [f"row {number}" for number in range(5)]
    await Customer.objects.using(database).abulk_create([Customer(name=name) for name in rows])
    with settings_changed(database, CONN_MAX_AGE=0.001):
        async with running(worker(coroutines=20, orm_lanes=2)):
            iterating = await orm.iterates.aenqueue("iterates")
            await until(lambda: book.now["holds"] == 1)
            await values(*await enqueued(orm.writes, [f"neighbour {number}" for number in range(20)]))
            first, second = await orm.tells_backend.aenqueue(), await orm.tells_backend.aenqueue()
            assert len(set(await values(first, second))) == 2
            book.gate.set()
            (found,) = await values(iterating)
    assert found[:5] == rows


async def test_neighbours_wait_for_an_iteration_that_has_the_only_thread(database: str) -> None:
    await Customer.objects.using(database).abulk_create([Customer(name="one"), Customer(name="two")])
    async with running(worker(coroutines=20, orm_lanes=1)):
        iterating = await orm.iterates.aenqueue("iterates")
        await until(lambda: book.now["holds"] == 1)
        neighbours = await enqueued(orm.writes, ["three", "four"])
        await until(lambda: book.now["writes"] == 2)
        book.gate.set()
        assert await values(iterating) == [["one", "two"]]
        await values(*neighbours)
    assert await written(database) == {"one", "two", "three", "four"}


async def test_an_iteration_that_is_left_early_frees_its_thread_while_its_task_lives(database: str) -> None:
    await Customer.objects.using(database).abulk_create([Customer(name="one"), Customer(name="two")])
    async with running(worker(coroutines=20, orm_lanes=1)):
        living = await orm.stops_iterating.aenqueue("stops")
        await until(lambda: book.now["stopped"] == 1)
        await values(await orm.writes.aenqueue("three"))
        book.gate.set()
        await values(living)


# -- connections ------------------------------------------------------------------------------------------------------


def end_connections(alias: str, ids: list[Any]) -> None:
    """Have the server end these connections, and wait until it has."""
    if connections[alias].vendor == "postgresql":
        for number in ids:
            assert query(alias, "SELECT pg_terminate_backend(%s, 20000)", number) == [(True,)]
        return
    for number in ids:
        query(alias, f"KILL {number}")
    while set(ids) & {row[0] for row in query(alias, "SELECT id FROM information_schema.processlist")}:
        pass


async def _busy_threads(number: int) -> list[Any]:
    """Results of long tasks, one on each thread, whose connections are open."""
    results = await enqueued(orm.lives_long, [f"long {at}" for at in range(number)])
    await until(lambda: book.now["long"] == number)
    return results


async def _ids() -> list[Any]:
    """What the server calls the connections of the ORM threads: each knows its own."""
    results = [await orm.tells_backend.aenqueue() for _ in range(4 * THREADS)]
    return sorted(set(await values(*results)))


@SERVERS
async def test_connections_that_the_server_ends_are_replaced_while_tasks_live_on_their_threads(database: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        ids = await _ids()
        assert len(ids) == THREADS
        await aside(end_connections, database, ids)
        names = [f"after {number}" for number in range(100)]
        await values(*await enqueued(orm.writes, names))
        book.gate.set()
        pairs = await values(*long)
    assert {before for before, _ in pairs} == set(ids)
    assert not {after for _, after in pairs} & set(ids)
    assert await written(database) == set(names)


@SERVERS
async def test_a_call_that_breaks_its_connection_costs_no_neighbour_anything(database: str) -> None:
    from tests.support.tasks import recording

    async with running(worker(coroutines=100, orm_lanes=2)):
        long = await _busy_threads(2)
        for _ in range(3):
            broken = [await recording.breaks_connection_async.aenqueue() for _ in range(4)]
            await ended(*broken)
            assert {error_of(one) for one in broken} == {"django.db.utils.OperationalError"}
            await values(*await enqueued(orm.writes, [f"after {number}" for number in range(10)]))
        book.gate.set()
        await values(*long)


@SERVERS
async def test_tasks_find_working_connections_after_the_server_was_restarted(
    database: str, servers: dict[str, Postgres | MariaDB]
) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        await aside(servers[database].restart)
        await values(*await enqueued(orm.writes, [f"after {number}" for number in range(50)]))
        book.gate.set()
        await values(*long)


@pytest.fixture(params=["session", "transaction"])
def bouncer(database: str, servers: dict[str, Postgres | MariaDB], request: pytest.FixtureRequest) -> Iterator[Daemon]:
    """A pooler in front of the database, which the queue goes through."""
    server = servers[database]
    assert isinstance(server, Postgres)
    with PgBouncer(server, request.param) as bouncer:
        settings = twin_settings(database, PORT=str(bouncer.port), DISABLE_SERVER_SIDE_CURSORS=True)
        with extra_database(f"postgres_restarted_{request.param}", settings) as alias, pointed_at(alias):
            yield bouncer


@pytest.mark.only_on("postgres")
async def test_tasks_find_working_connections_after_a_pooler_was_restarted(bouncer: Daemon) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        await aside(bouncer.restart)
        await values(*await enqueued(orm.writes, [f"after {number}" for number in range(50)]))
        book.gate.set()
        await values(*long)


@pytest.fixture
def own_pool(database: str) -> Iterator[str]:
    """The way to the database through Django's own pool."""
    settings = twin_settings(database, options={"pool": {"min_size": 1, "max_size": THREADS + 2}})
    with extra_database("postgres_own_pool", settings) as alias, pointed_at(alias):
        yield alias
        wrapper: Any = connections[alias]
        wrapper.close_pool()


@pytest.mark.only_on("postgres")
async def test_connections_of_djangos_own_pool_are_replaced_too(database: str, own_pool: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=4)):
        long = await _busy_threads(4)
        await aside(end_connections, database, await _ids())
        await values(*await enqueued(orm.writes, [f"after {number}" for number in range(20)]))
        book.gate.set()
        await values(*long)


@SERVERS
async def test_a_connection_that_is_too_old_is_replaced_between_the_calls_of_a_task(database: str) -> None:
    with settings_changed(database, CONN_MAX_AGE=0.001):
        async with running(worker(coroutines=1, orm_lanes=1)):
            long = await _busy_threads(1)
            book.gate.set()
            ((before, after),) = await values(*long)
    assert before != after


@SERVERS
async def test_a_connection_is_kept_between_calls_as_long_as_its_task_lives(database: str) -> None:
    async with running(worker(coroutines=1, orm_lanes=1)):
        long = await _busy_threads(1)
        book.gate.set()
        ((before, after),) = await values(*long)
    assert before == after
