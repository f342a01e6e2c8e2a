"""Connections of ORM threads: ended by the server, restarted, too old, pooled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from steady_queue.aio import running
from tests.aio.orm_threads.helpers import SERVERS, THREADS, customer_names, end_connections, settings_changed
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.runtime import enqueue_each, error_of, in_thread, until, values, wait_for_results, worker
from tests.support.servers import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.tasks import orm
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import MariaDB
    from tests.support.servers.server_process import ServerProcess

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]


async def _busy_threads(number: int) -> list[Any]:
    """Results of long tasks, one on each thread, whose connections are open."""
    results = await enqueue_each(orm.lives_long, [f"long {at}" for at in range(number)])
    await until(lambda: task_record.running["long"] == number)
    return results


async def _ids() -> list[Any]:
    """The ids of the connections of the ORM threads, as the server names them."""
    results = [await orm.returns_backend_id.aenqueue() for _ in range(4 * THREADS)]
    return sorted(set(await values(*results)))


@SERVERS
async def test_connections_that_the_server_ends_are_replaced_while_tasks_live_on_their_threads(database: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        ids = await _ids()
        assert len(ids) == THREADS
        await in_thread(end_connections, database, ids)
        names = [f"after {number}" for number in range(100)]
        await values(*await enqueue_each(orm.writes, names))
        task_record.gate.set()
        pairs = await values(*long)
    assert {before for before, _ in pairs} == set(ids)
    assert not {after for _, after in pairs} & set(ids)
    assert await customer_names(database) == set(names)


@SERVERS
async def test_a_call_that_breaks_its_connection_does_not_affect_other_tasks(database: str) -> None:
    from tests.support.tasks import misbehaving

    async with running(worker(coroutines=100, orm_lanes=2)):
        long = await _busy_threads(2)
        for _ in range(3):
            broken = [await misbehaving.breaks_connection_async.aenqueue() for _ in range(4)]
            await wait_for_results(*broken)
            assert {error_of(one) for one in broken} == {"django.db.utils.OperationalError"}
            await values(*await enqueue_each(orm.writes, [f"after {number}" for number in range(10)]))
        task_record.gate.set()
        await values(*long)


@SERVERS
async def test_tasks_find_working_connections_after_the_server_was_restarted(
    database: str, servers: dict[str, Postgres | MariaDB]
) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        await in_thread(servers[database].restart)
        await values(*await enqueue_each(orm.writes, [f"after {number}" for number in range(50)]))
        task_record.gate.set()
        await values(*long)


@pytest.fixture(params=["session", "transaction"])
def bouncer(
    database: str, servers: dict[str, Postgres | MariaDB], request: pytest.FixtureRequest
) -> Iterator[ServerProcess]:
    """A pooler in front of the database, through which the queue connects."""
    server = servers[database]
    assert isinstance(server, Postgres)
    with PgBouncer(server, request.param) as bouncer:
        settings = twin_settings(database, PORT=str(bouncer.port), DISABLE_SERVER_SIDE_CURSORS=True)
        with extra_database(f"postgres_restarted_{request.param}", settings) as alias, pointed_at(alias):
            yield bouncer


@pytest.mark.only_on("postgres")
async def test_tasks_find_working_connections_after_a_pooler_was_restarted(bouncer: ServerProcess) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        long = await _busy_threads(THREADS)
        await in_thread(bouncer.restart)
        await values(*await enqueue_each(orm.writes, [f"after {number}" for number in range(50)]))
        task_record.gate.set()
        await values(*long)


@pytest.fixture
def own_pool(database: str) -> Iterator[str]:
    """An alias of the database through Django's own pool."""
    settings = twin_settings(database, options={"pool": {"min_size": 1, "max_size": THREADS + 2}})
    with extra_database("postgres_own_pool", settings) as alias, pointed_at(alias):
        yield alias
        wrapper: Any = connections[alias]
        wrapper.close_pool()


@pytest.mark.only_on("postgres")
async def test_connections_of_djangos_own_pool_are_replaced_too(database: str, own_pool: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=4)):
        long = await _busy_threads(4)
        await in_thread(end_connections, database, await _ids())
        await values(*await enqueue_each(orm.writes, [f"after {number}" for number in range(20)]))
        task_record.gate.set()
        await values(*long)


@SERVERS
async def test_a_connection_that_is_too_old_is_replaced_between_the_calls_of_a_task(database: str) -> None:
    with settings_changed(database, CONN_MAX_AGE=1e-9):
        async with running(worker(coroutines=1, orm_lanes=1)):
            long = await _busy_threads(1)
            task_record.gate.set()
            ((before, after),) = await values(*long)
    assert before != after


@SERVERS
async def test_a_connection_is_kept_between_calls_as_long_as_its_task_lives(database: str) -> None:
    async with running(worker(coroutines=1, orm_lanes=1)):
        long = await _busy_threads(1)
        task_record.gate.set()
        ((before, after),) = await values(*long)
    assert before == after
