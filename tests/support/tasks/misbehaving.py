"""Tasks that raise, hang, break their connection or leave something behind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction

import steady_queue
from steady_queue import task
from steady_queue.errors import UnknownTaskError
from tests.support.tasks.recording import task_record


class ErrorWithoutText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


Endless: type[Exception] = type("Endless" * 100, (Exception,), {})


def _misbehave(how: str) -> Any:  # noqa: C901, one way to misbehave after another
    match how:
        case "exits":
            raise SystemExit(3)
        case "interrupts":
            raise KeyboardInterrupt
        case "cancels":
            raise asyncio.CancelledError("made up")
        case "recurses":
            return _misbehave(how)
        case "cannot be shown":
            raise ErrorWithoutText
        case "NUL":
            raise ValueError("before\x00after")
        case "surrogate":
            raise ValueError("before\ud800after")
        case "huge":
            raise ValueError("x" * 50_000_000)
        case "long name":
            raise Endless("short")
        case "group":
            raise BaseExceptionGroup("two", [ValueError("before\x00after"), KeyboardInterrupt()])
        case "stops an iteration":
            return next(iter(()))
        case "generator exit":
            raise GeneratorExit
        case "not JSON":
            return object()
        case "NUL in result":
            return "before\x00after"
        case "surrogate in result":
            return "before\ud800after"
        case "not a number":
            return float("nan")
    raise AssertionError(how)


@task
async def misbehaves(how: str) -> Any:
    return _misbehave(how)


@task
def misbehaves_in_thread(how: str) -> Any:
    return _misbehave(how)


@task
def leaves_transaction_open() -> None:
    transaction.atomic(using=steady_queue.database).__enter__()
    with connections[steady_queue.database].cursor() as cursor:
        cursor.execute("INSERT INTO shop_customer (name) VALUES ('left over')")


@task
def is_in_transaction() -> bool:
    connection = connections[steady_queue.database]
    connection.ensure_connection()
    return connection.in_atomic_block


@task
async def leaves_transaction_open_async() -> None:
    await sync_to_async(leaves_transaction_open.func)()


@task
async def is_in_transaction_async() -> bool:
    return await sync_to_async(is_in_transaction.func)()


@task
def closes_connections() -> int:
    """Count rows with the connection of the task, and close the connection."""
    with connections[steady_queue.database].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shop_customer")
        (number,) = cursor.fetchone()
    connections[steady_queue.database].close()
    return int(number)


@task
async def closes_connections_async() -> int:
    return await sync_to_async(closes_connections.func)()


@task
def breaks_connection() -> None:
    """Have the server end the connection of the task, and use the connection."""
    connection = connections[steady_queue.database]
    is_postgres = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())" if is_postgres else "KILL CONNECTION_ID()")
        cursor.execute("SELECT 1")


@task
async def breaks_connection_async() -> None:
    await sync_to_async(breaks_connection.func)()


@task
async def is_cancelled(by: str) -> str:
    me = asyncio.current_task()
    assert me is not None
    if by == "its child":
        child = asyncio.create_task(_cancel(me))
        await asyncio.wait([child])
    else:
        me.cancel()
    if by != "itself, too late":
        await asyncio.sleep(0)
    return by


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


#: Strong references, as asyncio requires.
strays: set[asyncio.Task[Any]] = set()


@task
async def leaves_stray(name: Any) -> Any:
    """Leave an asyncio task running until the gate is open."""
    gate = task_record.gate

    async def stay() -> None:
        task_record.enter("stray", name)
        while not gate.is_set():  # noqa: ASYNC110, sync tasks wait at the same gate
            await asyncio.sleep(0.01)
        task_record.leave("stray")

    stray = asyncio.create_task(stay())
    strays.add(stray)
    stray.add_done_callback(strays.discard)
    await asyncio.sleep(0)
    return name


@task
async def returns_much(size: int) -> str:
    return "x" * size


@task
async def swallows_cancellation(name: Any) -> None:
    """Ignore each cancellation until the gate is open."""
    gate = task_record.gate
    task_record.enter("async", name)
    while not gate.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            task_record.runs["asked to stop"] += 1
    task_record.leave("async")


@task
async def blocks_the_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251, to block is its purpose


@task
def blocks_its_thread(seconds: float) -> None:
    time.sleep(seconds)


@task
def raises_unknown_task() -> None:
    raise UnknownTaskError("it looks as if this task were unknown")


not_a_task = 1
