"""Add, change and remove recurring tasks at run time. Schedulers notice the change within seconds.

The sync forms write on Django's connection, and so inside the caller's transaction. With the queue in another database
than the application's, an entry is stored when the application's transaction commits, as a task is enqueued then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from asgiref.sync import sync_to_async
from django.db import transaction

from steady_queue.db import loop_connections
from steady_queue.db.aliases import queue_alias
from steady_queue.db.transactions import arun_one, async_connection, defers_to, run_one
from steady_queue.errors import ConfigurationError, UnknownRecurringTask
from steady_queue.jobs.compat import Task, task_backends
from steady_queue.recurring.definitions import Recurrence
from steady_queue.store.operations.recurring import entries as recurring

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from typing import Unpack

    from steady_queue.recurring.definitions import CatchUp
    from steady_queue.store.operations.recurring.entries import NewEntry
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation


class EntryOptions(TypedDict, total=False):
    """The options of a recurring task; all of `@recurring` but the key."""

    schedule: str | None
    every: timedelta | None
    args: Sequence[Any]
    kwargs: Mapping[str, Any] | None
    queue_name: str | None
    priority: int | None
    description: str
    time_zone: str | None
    catch_up: CatchUp
    skip_if_unfinished: bool


def schedule_recurring_task(
    task: Task[..., Any], *, key: str, replace: bool = False, **options: Unpack[EntryOptions]
) -> None:
    """Enqueue a task again and again from now on; the options are those of `@recurring`.

    A key that is in use is an error. With `replace`, the dynamic entry with this key is changed and enabled.
    """
    _schedule(task, _build_entry(task, key, options), replace)


async def aschedule_recurring_task(
    task: Task[..., Any], *, key: str, replace: bool = False, **options: Unpack[EntryOptions]
) -> None:
    """The async form of `schedule_recurring_task`."""
    entry = _build_entry(task, key, options)
    if loop_connections.prefers_django(queue_alias(), async_connection()):
        await sync_to_async(_schedule, thread_sensitive=True)(task, entry, replace)
    else:
        _check_stored(key, await arun_one(lambda sql: _store(sql, entry, replace)))


def unschedule_recurring_task(key: str) -> None:
    """Remove a dynamic entry; raises UnknownRecurringTask when there is none with this key."""
    _check_found(key, run_one(lambda sql: recurring.remove(sql, key)), "no dynamic recurring task")


async def aunschedule_recurring_task(key: str) -> None:
    """The async form of `unschedule_recurring_task`."""
    _check_found(key, await arun_one(lambda sql: recurring.remove(sql, key)), "no dynamic recurring task")


def enable_recurring_task(key: str) -> None:
    """Enable an entry, static or dynamic, from now on: ticks that it missed while disabled are not enqueued."""
    _check_found(key, run_one(lambda sql: recurring.switch(sql, key, on=True)))


async def aenable_recurring_task(key: str) -> None:
    """The async form of `enable_recurring_task`."""
    _check_found(key, await arun_one(lambda sql: recurring.switch(sql, key, on=True)))


def disable_recurring_task(key: str) -> None:
    """Disable an entry, static or dynamic; a static entry stays disabled when processes restart."""
    _check_found(key, run_one(lambda sql: recurring.switch(sql, key, on=False)))


async def adisable_recurring_task(key: str) -> None:
    """The async form of `disable_recurring_task`."""
    _check_found(key, await arun_one(lambda sql: recurring.switch(sql, key, on=False)))


def _schedule(task: Task[..., Any], entry: NewEntry, replace: bool) -> None:
    def store() -> None:
        _check_stored(entry.task_key, run_one(lambda sql: _store(sql, entry, replace)))

    # Backends of other packages have no `commit_with`.
    using = getattr(task_backends[task.backend], "commit_with", None)
    if using is not None and getattr(task, "enqueue_on_commit", True) and defers_to(using, queue_alias()):
        transaction.on_commit(store, using=using)
    else:
        store()


def _store(sql: Dialect, entry: NewEntry, replace: bool) -> Operation[bool]:
    return recurring.put(sql, entry) if replace else recurring.add(sql, entry)


def _build_entry(task: Task[..., Any], key: str, options: EntryOptions) -> NewEntry:
    if not isinstance(task, Task):
        raise ConfigurationError(f"only a task can recur, not {type(task).__name__}")
    values: dict[str, Any] = {**options, "kwargs": options.get("kwargs") or {}}
    return Recurrence(task=task, key=key, **values).entry()


def _check_stored(key: str, is_stored: bool) -> None:
    if not is_stored:
        raise ConfigurationError(f"there is already a recurring task with the key {key!r}")


def _check_found(key: str, is_found: bool, what: str = "no recurring task") -> None:
    if not is_found:
        raise UnknownRecurringTask(f"there is {what} with the key {key!r}")
