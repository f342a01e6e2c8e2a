"""Tasks that tests of `steady_queue.testing` run."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections, transaction
from django.utils import timezone, translation

import steady_queue
from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from tests.shop.models import Customer

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskContext

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
#: Set by a task that has begun and waits to be cancelled.
begun = threading.Event()


@task
def named(name: str) -> str:
    return name


@task
async def anamed(name: str) -> str:
    await asyncio.sleep(0)
    return name


@task(takes_context=True)
def returns_context(context: TaskContext) -> list[Any]:
    return [context.task_result.id, context.attempt, context.task_result.worker_ids]


@task
def returns_thread() -> int:
    return threading.get_ident()


@task
async def areturns_orm_thread() -> int:
    return await sync_to_async(threading.get_ident)()


@task
async def areturns_loop() -> int:
    return id(asyncio.get_running_loop())


@task
def spreads(depth: int) -> int:
    """Enqueue another one until the depth is used up."""
    if depth:
        spreads.enqueue(depth - 1)
    return depth


@task
async def aspreads(depth: int) -> int:
    if depth:
        await aspreads.aenqueue(depth - 1)
    return depth


@task
def again_later() -> None:
    again_later.using(run_after=timedelta(minutes=10)).enqueue()


@task
def saves(name: str) -> int:
    return int(Customer.objects.using(steady_queue.database).create(name=name).pk)


@task
async def asaves(name: str) -> int:
    return int((await Customer.objects.using(steady_queue.database).acreate(name=name)).pk)


@task
def saves_durably(name: str) -> None:
    with transaction.atomic(using=steady_queue.database, durable=True):
        Customer.objects.using(steady_queue.database).create(name=name)


@task
def saves_and_fails(name: str) -> None:
    Customer.objects.using(steady_queue.database).create(name=name)
    raise ValueError(name)


def ask_nonsense() -> None:
    with connections[steady_queue.database].cursor() as cursor:
        cursor.execute("SELECT * FROM nowhere")


@task
def breaks(name: str) -> None:
    Customer.objects.using(steady_queue.database).create(name=name)
    ask_nonsense()


@task
async def abreaks(name: str) -> None:
    await sync_to_async(ask_nonsense)()


@task
def breaks_in_silence(name: str) -> None:
    Customer.objects.using(steady_queue.database).create(name=name)
    with suppress(DatabaseError):
        ask_nonsense()


@task
def renames(customer: Customer, name: str) -> None:
    customer.name = name
    customer.save(update_fields=["name"])


@task
async def afails(message: str) -> None:
    await asyncio.sleep(0)
    raise LookupError(message)


@task
def is_interrupted() -> None:
    raise KeyboardInterrupt


@task
async def waits() -> None:
    begun.set()
    await asyncio.Event().wait()


@task
async def cancels_itself() -> None:
    raise asyncio.CancelledError


@task
def returns_locale() -> list[str | None]:
    return [translation.get_language(), timezone.get_current_timezone_name(), variable.get()]


@task
async def areturns_locale() -> list[str | None]:
    return [translation.get_language(), timezone.get_current_timezone_name(), variable.get()]


@task
def sets_locale() -> None:
    translation.activate("fr")
    timezone.activate("Asia/Tokyo")
    variable.set("set")


@limits_concurrency(key=lambda account, number=0: account)
@task
def limited(account: str, number: int = 0) -> int:
    return number


@limits_concurrency(key=lambda account: account, on_conflict="discard")
@task
def only_one(account: str) -> None:
    pass
