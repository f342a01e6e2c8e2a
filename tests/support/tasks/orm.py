"""Async tasks that use the ORM concurrently: transactions between two awaits, iterations, lost connections."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

import steady_queue
from steady_queue import task
from tests.shop.models import Customer
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def async_atomic() -> AsyncIterator[None]:
    """The helper that many projects have: Django's own `atomic` is not for async code."""
    block = transaction.atomic(using=steady_queue.database)
    await sync_to_async(block.__enter__)()
    try:
        yield
    except BaseException as error:
        await sync_to_async(block.__exit__)(type(error), error, error.__traceback__)
        raise
    await sync_to_async(block.__exit__)(None, None, None)


async def gate_opens() -> None:
    gate = task_record.gate
    while not gate.is_set():  # noqa: ASYNC110, tests in other threads open it
        await asyncio.sleep(0.005)


async def write(name: str) -> None:
    await Customer.objects.using(steady_queue.database).acreate(name=name)


def execute(statement: str) -> None:
    with connections[steady_queue.database].cursor() as cursor:
        cursor.execute(statement)


@task
async def writes(name: str) -> None:
    """Write a row without a transaction."""
    task_record.enter("writes", name)
    await write(name)
    task_record.leave("writes")


@task
async def leaves_open(name: str, how: str) -> None:
    """Open a transaction, wait at the gate, and end without closing it."""
    if how == "atomic":
        await sync_to_async(transaction.atomic(using=steady_queue.database).__enter__)()
    elif how == "autocommit off":
        await sync_to_async(transaction.set_autocommit)(False, using=steady_queue.database)
    else:
        await sync_to_async(execute)("BEGIN")
    await write(name)
    task_record.enter("holds", name)
    await gate_opens()
    task_record.leave("holds")


@task
async def uses_atomic(name: str, *, commits: bool) -> None:
    """The same with the helper, which closes it properly; not to commit, it raises and catches its own error."""
    try:
        async with async_atomic():
            await write(name)
            task_record.enter("holds", name)
            await gate_opens()
            await write(f"{name} again")
            if not commits:
                raise LookupError
    except LookupError:
        task_record.leave("holds")


@task
async def raises_in_transaction(name: str) -> None:
    await sync_to_async(transaction.atomic(using=steady_queue.database).__enter__)()
    await write(name)
    raise LookupError(name)


@task
async def is_stopped_in_transaction(name: str) -> None:
    """Wait inside a transaction for the end of the process; run again, it has nothing to do."""
    if not task_record.runs[name]:
        await sync_to_async(transaction.atomic(using=steady_queue.database).__enter__)()
        await write(name)
        task_record.enter("holds", name)
        await asyncio.Event().wait()
    task_record.runs[name] += 1


@task
def leaves_open_in_thread(how: str) -> None:
    if how == "atomic":
        transaction.atomic(using=steady_queue.database).__enter__()
    else:
        transaction.set_autocommit(False, using=steady_queue.database)
    Customer.objects.using(steady_queue.database).create(name="left open")


@task
async def iterates(name: str) -> list[str]:
    """Read the rows one by one, and wait at the gate after the first."""
    found = []
    async for customer in Customer.objects.using(steady_queue.database).order_by("id").aiterator(chunk_size=1):
        found.append(customer.name)
        if len(found) == 1:
            task_record.enter("holds", name)
            await gate_opens()
    return found


@task
async def stops_iterating(name: str) -> None:
    """Leave an iteration early, and go on."""
    async for _ in Customer.objects.using(steady_queue.database).aiterator(chunk_size=1):
        break
    task_record.enter("stopped", name)
    await gate_opens()


@task
async def leaves_child_behind(name: str) -> None:
    """End before a child task, which then opens a transaction."""

    async def later() -> None:
        await gate_opens()
        await sync_to_async(transaction.atomic(using=steady_queue.database).__enter__)()
        task_record.enter("late", name)

    children.append(asyncio.create_task(later()))


children: list[asyncio.Task[None]] = []


@task
async def gathers(name: str) -> None:
    """Write in child tasks, which use the transaction of their parent."""
    async with async_atomic():
        await asyncio.gather(*[write(f"{name} {number}") for number in range(5)])


def backend_id() -> Any:
    """The id of the connection of this thread, as the server names it."""
    connection = connections[steady_queue.database]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if connection.vendor == "postgresql" else "SELECT connection_id()")
        return cursor.fetchone()[0]


@task
async def lives_long(name: str) -> list[Any]:
    """Use a connection, wait at the gate, use one again; return the ids of both."""
    before = await sync_to_async(backend_id)()
    task_record.enter("long", name)
    await gate_opens()
    return [before, await sync_to_async(backend_id)()]


@task
async def returns_backend_id() -> Any:
    return await sync_to_async(backend_id)()
