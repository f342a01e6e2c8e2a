"""An errand: operations one after another, run from sync code or from async code.

It is a generator that yields operations and receives what they return, so that both forms of an action are written
once. Sync code runs it on Django's connection, and so inside the caller's transaction if there is one: then slots are
given out, and workers woken, after the commit. Async code runs it on a connection of the running loop, unless only
Django's can be right: as with `aenqueue`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections, transaction

from steady_queue.db import loop_connections, notify
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.errors import StoreError
from steady_queue.events import Event
from steady_queue.signals import aemit_and_send, emit_and_send
from steady_queue.store.operations.actions import ActionResult

if TYPE_CHECKING:
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

logger = logging.getLogger("steady_queue")


class Desk(NamedTuple):
    """What an errand is told: the database's words, and whether its transactions are its own."""

    sql: Dialect
    promoting: bool
    #: Whether the caller's transaction is one whose commit nobody tells us of: `set_autocommit(False)`.
    is_manual: bool = False


class Rest(NamedTuple):
    """A pause between two operations."""

    seconds: float


#: A revision among the steps is concluded: what it leaves to be done is done after the commit, and workers are woken.
#: An event is told after the commit.
Step: TypeAlias = "Operation[Any] | ActionResult | Rest | Event"
Steps = Generator[Step, Any, T]
Errand = Callable[[Desk], Steps[T]]


def run(errand: Errand[T]) -> T:
    """Run it over Django's connection to the queue's database."""
    driver = django_driver(queue_alias())
    joined = driver.in_transaction
    is_manual = joined and not driver.connection.in_atomic_block
    steps = errand(Desk(driver.sql, promoting=not joined, is_manual=is_manual))
    try:
        step = next(steps)
        while True:
            step = steps.send(_taken(driver, step))
    except StopIteration as done:
        result: T = done.value
        return result


async def arun(errand: Errand[T]) -> T:
    """Run it over a connection of the running loop, or over Django's where `aenqueue` would."""
    alias = queue_alias()
    if loop_connections.prefers_django(alias, async_connection()):
        return await sync_to_async(run, thread_sensitive=True)(errand)
    driver = await loop_connections.driver(alias)
    steps = errand(Desk(driver.sql, promoting=True))
    try:
        step = next(steps)
        while True:
            step = steps.send(await _ataken(alias, driver, step))
    except StopIteration as done:
        result: T = done.value
        return result


def _taken(driver: DjangoDriver, step: Step) -> Any:
    if isinstance(step, Rest):
        return time.sleep(step.seconds)
    if isinstance(step, Event):
        return after_commit(driver, partial(emit_and_send, step))
    if isinstance(step, ActionResult):
        return after_commit(driver, partial(_conclude, driver, step)) if step.wakes_workers else None
    return driver.run(step)


async def _ataken(alias: str, driver: AsyncDriver, step: Step) -> Any:
    if isinstance(step, Rest):
        return await asyncio.sleep(step.seconds)
    if isinstance(step, Event):
        return await aemit_and_send(step)
    if isinstance(step, ActionResult):
        return await notify.awake_workers(alias, driver) if step.wakes_workers else None
    return await driver.run(step)


def _conclude(driver: DjangoDriver, revised: ActionResult) -> None:
    if revised.after_commit is not None:
        try:
            driver.run(revised.after_commit)
        except StoreError:
            # What was asked for is committed; the next maintenance turn gives out what slots there are.
            logger.warning("promotion after commit failed and is left to maintenance", exc_info=True)
    notify.wake_workers(driver.alias, driver)


def defers_to(using: str, alias: str) -> bool:
    """Whether a transaction is open on `using`, another database than the queue's."""
    return using != alias and connections[using].in_atomic_block


def after_commit(driver: DjangoDriver, action: Callable[[], object]) -> None:
    """Do it when the caller's transaction has committed; at once without one."""
    connection = driver.connection
    if connection.in_atomic_block:
        # Robust: an error in here would leave the caller's `atomic` after its commit and skip other callbacks.
        transaction.on_commit(action, using=driver.alias, robust=True)
    elif connection.get_autocommit():
        action()
    # Under manual transaction management Django cannot tell when the commit comes: maintenance promotes.


def async_connection() -> str:
    """What the project has chosen for `aenqueue`."""
    backends = getattr(settings, "TASKS", {}).values()
    given = [backend.get("OPTIONS") for backend in backends]
    choices = [options.get("aenqueue") for options in given if isinstance(options, dict)]
    return next((choice for choice in choices if choice in ("django", "native")), "auto")
