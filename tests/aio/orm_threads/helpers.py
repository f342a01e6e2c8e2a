"""What the tests of ORM threads share."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

import steady_queue
from steady_queue.aio.orm_threads.pool import OrmThreads
from tests.shop.models import Customer
from tests.support.databases.tables import query
from tests.support.runtime import EmittedEvents, in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator


#: SQLite has a single writer and no connection that a server could end: no task can write during an open transaction.
SERVERS = pytest.mark.only_on("postgres", "mariadb")


THREADS = 8


def _names(alias: str) -> set[str]:
    return set(Customer.objects.using(alias).values_list("name", flat=True))


async def customer_names(alias: str) -> set[str]:
    return await in_thread(_names, alias)


@contextmanager
def short_orm_timeout(milliseconds: int = 300) -> Iterator[None]:
    before = steady_queue.orm_thread_timeout
    steady_queue.orm_thread_timeout = timedelta(milliseconds=milliseconds)
    try:
        yield
    finally:
        steady_queue.orm_thread_timeout = before


@contextmanager
def settings_changed(alias: str, **changes: Any) -> Iterator[None]:
    """Other settings for connections that are opened in the block; each thread copies the settings at its first use."""
    settings = connections.databases[alias]
    before = {name: settings[name] for name in changes}
    settings.update(changes)
    try:
        yield
    finally:
        settings.update(before)


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


@asynccontextmanager
async def orm_threads(count: int, emitted: EmittedEvents | None = None) -> AsyncIterator[OrmThreads]:
    pool = OrmThreads(count, events=emitted or EmittedEvents())
    await pool.open()
    try:
        yield pool
    finally:
        pool.shutdown()


def start_task(pool: OrmThreads, body: Callable[[], Awaitable[Any]], name: str = "task") -> asyncio.Task[Any]:
    """Start the body as a task with its own session."""
    session, context = pool.begin(lambda: name)

    async def run() -> Any:
        try:
            return await body()
        finally:
            await session.release_thread()
            pool.end(session)

    return asyncio.get_running_loop().create_task(run(), context=context)


def create_customers(alias: str, *names: str) -> None:
    Customer.objects.using(alias).bulk_create([Customer(name=name) for name in names])
