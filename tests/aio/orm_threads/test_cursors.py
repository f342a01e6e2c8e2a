"""Cursors and iterations of async tasks that share ORM threads."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from steady_queue.aio import running
from tests.aio.orm_threads.helpers import (
    SERVERS,
    create_customers,
    customer_names,
    orm_threads,
    settings_changed,
    start_task,
)
from tests.shop.models import Customer
from tests.support.databases.connections import open_connections
from tests.support.runtime import enqueue_each, in_thread, until, values, worker
from tests.support.tasks import orm
from tests.support.tasks.orm import execute
from tests.support.tasks.recording import task_record
from tests.support.threads import held

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]


@SERVERS
async def test_an_iteration_keeps_its_connection_while_other_connections_are_closed_by_age(database: str) -> None:
    rows = [f"row {number}" for number in range(5)]
    await Customer.objects.using(database).abulk_create([Customer(name=name) for name in rows])
    with settings_changed(database, CONN_MAX_AGE=0.001):
        async with running(worker(coroutines=20, orm_lanes=2)):
            iterating = await orm.iterates.aenqueue("iterates")
            await until(lambda: task_record.running["holds"] == 1)
            await values(*await enqueue_each(orm.writes, [f"other {number}" for number in range(20)]))
            first, second = await orm.returns_backend_id.aenqueue(), await orm.returns_backend_id.aenqueue()
            assert len(set(await values(first, second))) == 2
            task_record.gate.set()
            (found,) = await values(iterating)
    assert found[:5] == rows


async def test_other_tasks_wait_for_an_iteration_that_has_the_only_thread(database: str) -> None:
    await Customer.objects.using(database).abulk_create([Customer(name="one"), Customer(name="two")])
    async with running(worker(coroutines=20, orm_lanes=1)):
        iterating = await orm.iterates.aenqueue("iterates")
        await until(lambda: task_record.running["holds"] == 1)
        others = await enqueue_each(orm.writes, ["three", "four"])
        await until(lambda: task_record.running["writes"] == 2)
        task_record.gate.set()
        assert await values(iterating) == [["one", "two"]]
        await values(*others)
    assert await customer_names(database) == {"one", "two", "three", "four"}


async def test_an_iteration_that_is_left_early_frees_its_thread_while_its_task_lives(database: str) -> None:
    await Customer.objects.using(database).abulk_create([Customer(name="one"), Customer(name="two")])
    async with running(worker(coroutines=20, orm_lanes=1)):
        living = await orm.stops_iterating.aenqueue("stops")
        await until(lambda: task_record.running["stopped"] == 1)
        await values(await orm.writes.aenqueue("three"))
        task_record.gate.set()
        await values(living)


POSTGRES = pytest.mark.only_on("postgres")


@POSTGRES
async def test_the_loop_does_not_wait_for_a_query_when_an_iteration_is_left_early(database: str) -> None:
    await in_thread(create_customers, database, "one", "two", "three")
    began = asyncio.Event()

    async def leaves_early() -> None:
        async for _ in Customer.objects.using(database).aiterator(chunk_size=1):
            break
        began.set()
        # The iteration is closed while this waits for a lock that only the loop can have released.
        await sync_to_async(execute)("SELECT pg_advisory_xact_lock(5)")

    for _ in range(5):
        began.clear()
        async with orm_threads(1) as pool:
            lock = held(database, ("SELECT pg_advisory_xact_lock(5)", ()))
            await asyncio.to_thread(lock.__enter__)
            leaving = start_task(pool, leaves_early)
            await began.wait()
            for _ in range(20):
                await asyncio.sleep(0.001)
            await asyncio.to_thread(lock.__exit__, None, None, None)
            await leaving


@SERVERS
async def test_a_cursor_that_a_task_keeps_holds_its_thread(database: str) -> None:
    """Otherwise what it executes would join the transaction of another task."""
    kept, done = asyncio.Event(), asyncio.Event()

    async def keeps() -> None:
        cursor = await sync_to_async(lambda: connections[database].cursor())()
        kept.set()
        await done.wait()
        await sync_to_async(cursor.execute)("INSERT INTO shop_customer (name) VALUES ('kept')")
        await sync_to_async(cursor.close)()

    async def rolls_back() -> None:
        with suppress(LookupError):
            async with orm.async_atomic():
                done.set()
                await orm.write("lost")
                raise LookupError

    async with orm_threads(2) as pool:
        keeping = start_task(pool, keeps)
        await kept.wait()
        others = [start_task(pool, rolls_back) for _ in range(3)]
        await asyncio.gather(keeping, *others)
    assert await customer_names(database) == {"kept"}


async def test_a_cursor_that_was_closed_or_dropped_holds_nothing(database: str) -> None:
    async def uses_cursors() -> None:
        def use() -> Any:
            with connections[database].cursor() as cursor:
                cursor.execute("SELECT 1")
            connections[database].cursor().execute("SELECT 1")
            return cursor

        kept = await sync_to_async(use)()
        assert not pool.threads[0].holder
        del kept

    async with orm_threads(1) as pool:
        await start_task(pool, uses_cursors)


@SERVERS
async def test_copies_of_a_connection_are_managed_by_their_task(database: str) -> None:
    before = await in_thread(open_connections, database)

    async def copies() -> None:
        def copy() -> None:
            for _ in range(10):
                other = connections[database].copy()
                other.ensure_connection()
                other.close()

        await sync_to_async(copy)()

    async with orm_threads(1) as pool:
        await start_task(pool, copies)
        assert await in_thread(open_connections, database) <= before + 1
        assert len(pool.threads[0].connections._connections) == len(list(connections))
