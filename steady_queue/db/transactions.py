"""Run operations where the caller is: from sync or async code, inside or outside a transaction of the caller.

Sync code runs on Django's connection, and so inside the caller's transaction if there is one; then slots are assigned
and workers are woken after the commit. Async code runs on a connection of the running loop, unless only Django's
connection can be right: as with `aenqueue`.

    run_one, arun_one    one operation
    run, arun            an action: several operations, written once for both forms
    run_steps            the steps of a generator, over a driver that the caller chose
    after_commit         a callback
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction

from steady_queue.db import loop_connections, notify
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.db.missing_tables import aexplain_store_error, explain_store_error
from steady_queue.errors import StoreError
from steady_queue.signals import aemit_and_send, emit_and_send

if TYPE_CHECKING:
    from steady_queue.events import Event
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

logger = logging.getLogger("steady_queue")

_ASYNC_FORM = "call the async form of this function or property and await it; its name begins with 'a', as in aretry()"


class Scope(NamedTuple):
    """Passed to every action: the SQL dialect, and whether the action owns its transactions."""

    sql: Dialect
    owns_transaction: bool
    #: Whether the caller's transaction is one whose commit Django does not report: `set_autocommit(False)`.
    is_manual: bool = False


class Pause(NamedTuple):
    """Wait between two operations; with `reconnect`, the next one opens a new connection to the database."""

    seconds: float
    reconnect: bool = False


class AfterCommit(NamedTuple):
    """Left until the caller's transaction commits: an operation, a wake-up of the workers, events, an announcement."""

    operation: Operation[Any] | None = None
    wakes_workers: bool = False
    events: Sequence[Event] = ()
    #: See steady_queue.db.notify.
    topic: str | None = None


#: A generator of steps receives what each operation returns; an error of an operation is raised at its `yield`.
Step: TypeAlias = "Operation[Any] | Pause | AfterCommit"
Steps = Generator[Step, Any, T]
Action = Callable[[Scope], Steps[T]]
#: Builds an operation in the dialect of the database.
Build: TypeAlias = "Callable[[Dialect], Operation[T]]"


def run_one(build: Build[T], async_form: str = _ASYNC_FORM) -> T:
    """Run one operation on Django's connection to the queue's database; `async_form` is the advice for async code."""
    driver = django_driver(queue_alias())
    try:
        return driver.run(build(driver.sql))
    except StoreError as error:
        if missing := explain_store_error(driver, error):
            raise missing from error
        raise
    except SynchronousOnlyOperation:
        raise refused_in_async_code(async_form) from None


async def arun_one(build: Build[T], connection: str | None = None) -> T:
    """Run one operation from async code; `connection` is the choice for `aenqueue`, by default the project's."""
    alias = queue_alias()
    if loop_connections.prefers_django(alias, async_connection() if connection is None else connection):
        return await sync_to_async(run_one, thread_sensitive=True)(build)
    driver = await loop_connections.driver(alias)
    try:
        return await driver.run(build(driver.sql))
    except StoreError as error:
        if missing := await aexplain_store_error(alias, driver, error):
            raise missing from error
        raise


def run(action: Action[T]) -> T:
    """Run an action on Django's connection to the queue's database."""
    driver = django_driver(queue_alias())
    joins = driver.in_transaction
    is_manual = joins and not driver.connection.in_atomic_block
    try:
        return run_steps(driver, action(Scope(driver.sql, owns_transaction=not joins, is_manual=is_manual)))
    except SynchronousOnlyOperation:
        raise refused_in_async_code(_ASYNC_FORM) from None


async def arun(action: Action[T]) -> T:
    """Run an action on a connection of the running loop, or on Django's where `aenqueue` would."""
    alias = queue_alias()
    if loop_connections.prefers_django(alias, async_connection()):
        return await sync_to_async(run, thread_sensitive=True)(action)
    driver = await loop_connections.driver(alias)
    return await arun_steps(alias, driver, action(Scope(driver.sql, owns_transaction=True)))


def run_steps(driver: DjangoDriver, steps: Steps[T]) -> T:
    """Take the steps one after another on Django's connection; returns what the generator returns."""
    try:
        step = next(steps)
        while True:
            try:
                received = _take(driver, step)
            except StoreError as error:
                step = steps.throw(explain_store_error(driver, error) or error)
            else:
                step = steps.send(received)
    except StopIteration as done:
        result: T = done.value
        return result


async def arun_steps(alias: str, driver: AsyncDriver, steps: Steps[T]) -> T:
    """The async form of `run_steps`: every operation has a transaction of its own, so a commit needs no waiting."""
    try:
        step = next(steps)
        while True:
            try:
                received = await _atake(alias, driver, step)
            except StoreError as error:
                step = steps.throw(await aexplain_store_error(alias, driver, error) or error)
            else:
                step = steps.send(received)
    except StopIteration as done:
        result: T = done.value
        return result


def _take(driver: DjangoDriver, step: Step) -> Any:
    if isinstance(step, Pause):
        time.sleep(step.seconds)
        if step.reconnect:
            driver.connection.close()
        return None
    if isinstance(step, AfterCommit):
        has_work = step.wakes_workers or step.events or step.operation is not None or step.topic is not None
        return after_commit(driver, partial(_run_after_commit, driver, step)) if has_work else None
    return driver.run(step)


async def _atake(alias: str, driver: AsyncDriver, step: Step) -> Any:
    if isinstance(step, Pause):
        return await asyncio.sleep(step.seconds)  # the pool replaces a lost connection by itself
    if isinstance(step, AfterCommit):
        if step.wakes_workers:
            await notify.awake_workers(alias, driver)
        if step.topic is not None:
            await notify.aannounce(alias, driver, step.topic)
        for event in step.events:
            await aemit_and_send(event)
        return None
    return await driver.run(step)


def _run_after_commit(driver: DjangoDriver, step: AfterCommit) -> None:
    if step.operation is not None:
        promote_after_commit(driver, step.operation)
    if step.wakes_workers:
        notify.wake_workers(driver.alias, driver)
    if step.topic is not None:
        notify.announce(driver.alias, driver, step.topic)
    for event in step.events:
        emit_and_send(event)


def promote_after_commit(driver: DjangoDriver, operation: Operation[T]) -> T | None:
    """Run the promotion that a committed transaction left open; None when it failed."""
    try:
        return driver.run(operation)
    except StoreError:
        # What the caller asked for is committed; the next maintenance turn promotes the blocked jobs.
        logger.warning("promotion after commit failed and is left to maintenance", exc_info=True)
        return None


def defers_to(using: str, alias: str) -> bool:
    """Whether a transaction is open on `using`, another database than the queue's."""
    return using != alias and connections[using].in_atomic_block


def after_commit(driver: DjangoDriver, action: Callable[[], object]) -> None:
    """Call the action when the caller's transaction has committed; at once without a transaction."""
    connection = driver.connection
    if connection.in_atomic_block:
        # Robust: an error in here would leave the caller's `atomic` after its commit and skip other callbacks.
        transaction.on_commit(action, using=driver.alias, robust=True)
    elif connection.get_autocommit():
        action()
    # Under manual transaction management Django does not report the commit: maintenance promotes.


def refused_in_async_code(advice: str) -> SynchronousOnlyOperation:
    """Django's own error for a sync call in async code, with advice that fits; Django's text advises a thread."""
    return SynchronousOnlyOperation(f"this is async code, which cannot use Django's database connection: {advice}")


def async_connection() -> str:
    """The project's choice for `aenqueue`: "auto", "django" or "native"."""
    backends = getattr(settings, "TASKS", {}).values()
    given = [backend.get("OPTIONS") for backend in backends]
    choices = [options.get("aenqueue") for options in given if isinstance(options, dict)]
    return next((choice for choice in choices if choice in ("django", "native")), "auto")
