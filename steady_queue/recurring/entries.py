"""Dynamic schedules: recurring tasks made, changed and removed at run time. Schedulers notice within seconds.

The sync forms write on Django's connection, and so inside the caller's transaction. With the queue in another database
than the application's, a schedule is made when the application's transaction commits, as a task is enqueued then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import transaction

from steady_queue.db import loop_connections
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.db.transactions import async_connection, defers_to
from steady_queue.errors import ConfigurationError, UnknownRecurringTask
from steady_queue.jobs.compat import Task, task_backends
from steady_queue.recurring.definitions import Recurrence
from steady_queue.store.operations import recurring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from steady_queue.recurring.definitions import CatchUp
    from steady_queue.store.operations.recurring import NewEntry
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")


def schedule_recurring_task(
    task: Task[..., Any],
    *,
    key: str,
    schedule: str | None = None,
    every: timedelta | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    priority: int | None = None,
    description: str = "",
    time_zone: str | None = None,
    catch_up: CatchUp = "none",
    replace: bool = False,
) -> None:
    """Enqueue a task again and again from now on; the options are those of `@recurring`.

    A key that is taken is an error. With `replace` the dynamic entry that has it is changed, and switched on.
    """
    options = {name: value for name, value in locals().items() if name != "replace"}
    _schedule(task, _entry(options), replace)


async def aschedule_recurring_task(task: Task[..., Any], *, key: str, replace: bool = False, **options: Any) -> None:
    """The same from async code."""
    entry = _entry({"task": task, "key": key, **options})
    if loop_connections.prefers_django(queue_alias(), async_connection()):
        await sync_to_async(_schedule, thread_sensitive=True)(task, entry, replace)
    else:
        _stored(key, await _arun(_storing(entry, replace)))


def unschedule_recurring_task(key: str) -> None:
    """Remove a dynamic entry; UnknownRecurringTask when there is none with this key."""
    _found(key, _run(lambda sql: recurring.remove(sql, key)), "no dynamic recurring task")


async def aunschedule_recurring_task(key: str) -> None:
    """The same from async code."""
    _found(key, await _arun(lambda sql: recurring.remove(sql, key)), "no dynamic recurring task")


def enable_recurring_task(key: str) -> None:
    """Let an entry fire again, static or dynamic, from now on: what it missed meanwhile is not made up for."""
    _found(key, _run(lambda sql: recurring.switch(sql, key, on=True)))


async def aenable_recurring_task(key: str) -> None:
    """The same from async code."""
    _found(key, await _arun(lambda sql: recurring.switch(sql, key, on=True)))


def disable_recurring_task(key: str) -> None:
    """Keep an entry, static or dynamic, from firing; a static one stays so when processes start anew."""
    _found(key, _run(lambda sql: recurring.switch(sql, key, on=False)))


async def adisable_recurring_task(key: str) -> None:
    """The same from async code."""
    _found(key, await _arun(lambda sql: recurring.switch(sql, key, on=False)))


def _schedule(task: Task[..., Any], entry: NewEntry, replace: bool) -> None:
    def store() -> None:
        _stored(entry.task_key, _run(_storing(entry, replace)))

    # Another backend's tasks know nothing of this.
    using = getattr(task_backends[task.backend], "commit_with", None)
    if using is not None and getattr(task, "enqueue_on_commit", True) and defers_to(using, queue_alias()):
        transaction.on_commit(store, using=using)
    else:
        store()


def _storing(entry: NewEntry, replace: bool) -> Callable[[Dialect], Operation[bool]]:
    return lambda sql: recurring.put(sql, entry) if replace else recurring.add(sql, entry)


def _entry(options: Mapping[str, Any]) -> NewEntry:
    if not isinstance(options["task"], Task):
        raise ConfigurationError(f"a task recurs, not {type(options['task']).__name__}")
    return Recurrence(**{**options, "kwargs": options.get("kwargs") or {}}).entry()


def _stored(key: str, is_stored: bool) -> None:
    if not is_stored:
        raise ConfigurationError(f"there is a recurring task {key!r} already")


def _found(key: str, is_found: bool, what: str = "no recurring task") -> None:
    if not is_found:
        raise UnknownRecurringTask(f"there is {what} {key!r}")


def _run(operation: Callable[[Dialect], Operation[T]]) -> T:
    driver = django_driver(queue_alias())
    return driver.run(operation(driver.sql))


async def _arun(operation: Callable[[Dialect], Operation[T]]) -> T:
    alias = queue_alias()
    if loop_connections.prefers_django(alias, async_connection()):
        return await sync_to_async(_run, thread_sensitive=True)(operation)
    driver = await loop_connections.driver(alias)
    return await driver.run(operation(driver.sql))
