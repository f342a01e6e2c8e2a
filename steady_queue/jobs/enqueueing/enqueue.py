"""Enqueue: the only writer of new jobs, one or many, from sync and from async code.

    enqueue_calls, aenqueue_calls    what the backend's `enqueue`, `aenqueue` and `enqueue_all` call
      build_jobs (new_jobs.py)       calls become rows, or an error says what is wrong with them
      write_jobs                     the rows are written, in one operation of the store
      _after_commit                  after the commit: promotion, wake-up of workers, `task_enqueued`

What decides whether a job exists:

- `enqueue()` writes on Django's connection to the queue's database, and so inside the caller's transaction.
- With the queue in another database than the application's, `enqueue_on_commit` (the default) defers the write until
  the application's transaction commits. A crash between the two loses the job: it exists *only if* committed.
- `aenqueue()` writes on a connection of the running loop, in a transaction of its own; called from sync code through
  `async_to_sync` it joins the caller's transaction instead.

Limited jobs are stored blocked and get their slots in a transaction that Steady Queue owns: at once, or after the
caller's commit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction

import steady_queue
from steady_queue import events
from steady_queue.db import loop_connections, notify
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.db.missing_tables import aexplain_store_error, explain_store_error
from steady_queue.db.transactions import (
    Pause,
    after_commit,
    arun_steps,
    defers_to,
    promote_after_commit,
    refused_in_async_code,
    run_steps,
)
from steady_queue.errors import ConfigurationError, EnqueueError, StoreError
from steady_queue.jobs.compat import Task, task_backends, task_enqueued
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.enqueueing.enqueued import Results
from steady_queue.jobs.enqueueing.new_jobs import build_jobs
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.task_signals import asend, is_observed, send
from steady_queue.store.drivers.error_codes import is_lock_timeout
from steady_queue.store.operations.enqueue import admit, are_plain, enqueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from steady_queue.backend import SteadyQueueBackend
    from steady_queue.db.transactions import Steps
    from steady_queue.jobs.compat import BaseTaskBackend
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.enqueue import Enqueued
    from steady_queue.store.sql import Dialect

    Call = TaskCall | tuple[Task[..., Any], Sequence[Any]] | tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]

logger = logging.getLogger("steady_queue")

#: Pauses before an enqueue is sent again whose reply was lost.
RESEND_DELAYS_SECONDS = (0.05, 0.2, 0.5)
#: How long an enqueue waits for a concurrency key that another transaction has locked. A process that works holds it
#: for milliseconds; a process that has vanished, or is frozen, until the server ends its transaction.
KEY_WAIT_SECONDS = 2


# -- the public functions ---------------------------------------------------------------------------------------------


def enqueue_all(calls: Iterable[Call]) -> Results:
    """Enqueue many calls, all or none: `enqueue_all([greet.bind("Ada"), greet.bind("Alan", times=2)])`.

    Returns their results in order, each built when it is accessed. Tasks with `on_conflict="discard"` that found no
    free slot are among them, and listed in `discarded`; inside a transaction that is known after its commit.
    """
    bound = [call if type(call) is TaskCall else _bind(call) for call in calls]
    try:
        return enqueue_calls(_find_backend(bound), bound) if bound else Results([], [])
    except SynchronousOnlyOperation:
        raise refused_in_async_code("instead of enqueue_all(...), use: await aenqueue_all(...)") from None


async def aenqueue_all(calls: Iterable[Call]) -> Results:
    """The async form of `enqueue_all`."""
    bound = [call if type(call) is TaskCall else _bind(call) for call in calls]
    return await aenqueue_calls(_find_backend(bound), bound) if bound else Results([], [])


def _bind(call: object) -> TaskCall:
    """Return the call of a tuple of task, positional and keyword arguments."""
    if isinstance(call, tuple) and 1 <= len(call) <= 3 and isinstance(call[0], Task):
        args = call[1] if len(call) > 1 else ()
        kwargs = call[2] if len(call) > 2 else {}
        if isinstance(args, (list, tuple)) and isinstance(kwargs, Mapping):
            return TaskCall(call[0], tuple(args), kwargs)
    if isinstance(call, Task):
        raise TypeError(f"enqueue_all takes calls of tasks: pass {call.name}.bind(...), not the task {call.name}")
    hint = "; decorate the function with @task" if callable(call) else ""
    raise TypeError(
        f"enqueue_all takes task.bind(...) or (task, args, kwargs), not {type(call).__name__} {call!r:.100}{hint}"
    )


def _find_backend(calls: Sequence[TaskCall]) -> SteadyQueueBackend:
    aliases = {call.task.backend for call in calls}
    if len(aliases) > 1:
        raise ConfigurationError(f"enqueue_all is one transaction of one backend, not of {sorted(aliases)}")
    backend = task_backends[aliases.pop()]
    if not hasattr(backend, "commit_with"):
        raise ConfigurationError(f"enqueue_all needs a backend of Steady Queue, not {type(backend).__name__}")
    return cast("SteadyQueueBackend", backend)


# -- from sync code ---------------------------------------------------------------------------------------------------


def enqueue_calls(backend: SteadyQueueBackend, calls: Sequence[TaskCall]) -> Results:
    """Enqueue calls of tasks of one backend, all or none, on Django's connection."""
    results = _build_results(backend, calls)
    alias = queue_alias()
    driver = django_driver(alias)
    if defers_to(backend.commit_with, alias) and _are_on_commit(calls):
        write = partial(write_jobs, driver, type(backend), results)
        transaction.on_commit(write, using=backend.commit_with)
    else:
        write_jobs(driver, type(backend), results)
    return results


def _build_results(backend: SteadyQueueBackend, calls: Sequence[TaskCall]) -> Results:
    for task in {id(call.task): call.task for call in calls}.values():
        backend.validate_task(task)
    return Results(calls, build_jobs(calls, max_bytes=backend.max_arguments_bytes, defaults=backend.options))


def _are_on_commit(calls: Sequence[TaskCall]) -> bool:
    choices = {getattr(call.task, "enqueue_on_commit", True) for call in calls}
    if len(choices) > 1:
        raise ConfigurationError("the tasks of one enqueue_all must agree on enqueue_on_commit")
    return choices == {True}


def write_jobs(driver: DjangoDriver, sender: type[BaseTaskBackend], results: Results) -> None:
    """Write the jobs on Django's connection; inside the caller's transaction if there is one."""
    jobs, sql, alias = results.jobs, driver.sql, driver.alias
    owns_transaction = not driver.in_transaction
    notifies = owns_transaction and _is_one_ready(jobs) and notify.reserve_notification(alias, sql)
    try:
        stored = driver.run(
            enqueue(
                sql,
                jobs,
                promoting=owns_transaction,
                limits=limits_in_force,
                wait_seconds=KEY_WAIT_SECONDS,
                notifies=notifies,
                rules=results.rules,
            )
        )
    except StoreError as failure:
        error = explain_store_error(driver, failure) or failure
        stored = run_steps(driver, _recover(sql, results, error, owns_transaction=owns_transaction))
    _record_duplicates(results, stored)
    has_work = stored.blocked or stored.discarded or stored.freed or stored.replaced
    if has_work or notify.has_listeners(alias, sql) or is_observed(task_enqueued, sender):
        after_commit(driver, partial(_after_commit, driver, sender, results, stored))


def _after_commit(driver: DjangoDriver, sender: type[BaseTaskBackend], results: Results, stored: Enqueued) -> None:
    """What follows the commit: blocked jobs get their slots, workers are woken, `task_enqueued` is sent."""
    discarded = stored.discarded
    if stored.blocked or stored.freed:
        promotion = admit(
            driver.sql, stored.blocked, limits_in_force, freed=stored.freed, wait_seconds=KEY_WAIT_SECONDS
        )
        without_slot = promote_after_commit(driver, promotion)
        discarded = discarded | without_slot if without_slot else discarded
    if discarded:
        _record_discarded(results, discarded)
    _emit_replaced(stored)
    notify.wake_workers(driver.alias, driver, notified=stored.notified)
    if is_observed(task_enqueued, sender):
        send(task_enqueued, sender, results.stored)


# -- from async code --------------------------------------------------------------------------------------------------


async def aenqueue_calls(backend: SteadyQueueBackend, calls: Sequence[TaskCall]) -> Results:
    """Enqueue on a connection of the running loop, in a transaction of its own; on Django's where that is required."""
    alias = queue_alias()
    if loop_connections.prefers_django(alias, backend.async_connection):
        return await sync_to_async(enqueue_calls, thread_sensitive=True)(backend, calls)
    results = _build_results(backend, calls)
    driver = await loop_connections.driver(alias)
    jobs, sql = results.jobs, driver.sql
    notifies = _is_one_ready(jobs) and notify.reserve_notification(alias, sql)
    try:
        stored = await driver.run(
            enqueue(
                sql,
                jobs,
                limits=limits_in_force,
                wait_seconds=KEY_WAIT_SECONDS,
                notifies=notifies,
                rules=results.rules,
            )
        )
    except StoreError as failure:
        error = await aexplain_store_error(alias, driver, failure) or failure
        stored = await arun_steps(alias, driver, _recover(sql, results, error, owns_transaction=True))
    _record_duplicates(results, stored)
    if stored.discarded:
        _record_discarded(results, stored.discarded)
    _emit_replaced(stored)
    await notify.awake_workers(alias, driver, notified=stored.notified)
    sender = type(backend)
    if is_observed(task_enqueued, sender):
        await asend(task_enqueued, sender, results.stored)
    return results


# -- from both --------------------------------------------------------------------------------------------------------


def _is_one_ready(jobs: Sequence[NewJob]) -> bool:
    """Whether this is a single job that is ready at once: the statement that inserts it can notify as well."""
    return len(jobs) == 1 and are_plain(jobs)


def _record_discarded(results: Results, discarded: frozenset[UUID]) -> None:
    """Record and report the jobs that found no free slot."""
    results.discard(discarded)
    for id_ in discarded:
        events.emit(events.JobRefused(job_id=id_))


def _record_duplicates(results: Results, stored: Enqueued) -> None:
    """Record which calls stand for jobs that existed before, and which were replaced by others of the same call."""
    if stored.existing:
        results.record_existing(stored.existing, stored.records)
    if stored.skipped:
        results.discard(stored.skipped)


def _emit_replaced(stored: Enqueued) -> None:
    if stored.replaced:
        events.emit(events.JobsReplaced(job_ids=stored.replaced, count=len(stored.replaced)))


def _recover(sql: Dialect, results: Results, error: StoreError, *, owns_transaction: bool) -> Steps[Enqueued]:
    """Write jobs whose first write failed, or raise EnqueueError. In the caller's transaction nothing is repeated."""
    jobs = results.jobs
    if owns_transaction and is_lock_timeout(error):
        try:
            return (yield from _write_blocked(sql, results))
        except StoreError as second_error:
            error = second_error
    if not owns_transaction or not _may_resend(error):
        raise _enqueue_error(error, jobs) from error
    for seconds in RESEND_DELAYS_SECONDS:
        yield Pause(seconds, reconnect=True)
        try:
            return (yield from _write_again(sql, results))
        except StoreError as next_error:
            error = next_error
    raise _enqueue_error(error, jobs, stored="unknown") from error


def _write_again(sql: Dialect, results: Results) -> Steps[Enqueued]:
    """Write the jobs, unless the write whose reply was lost has stored them."""
    operation = enqueue(
        sql,
        results.jobs,
        limits=limits_in_force,
        wait_seconds=KEY_WAIT_SECONDS,
        is_repeated=True,
        rules=results.rules,
    )
    try:
        stored: Enqueued = yield operation
    except StoreError as error:
        if not is_lock_timeout(error):
            raise
        stored = yield from _write_blocked(sql, results, is_repeated=True)
    return stored


def _write_blocked(sql: Dialect, results: Results, *, is_repeated: bool = False) -> Steps[Enqueued]:
    """Write the jobs without their slots.

    Used when another transaction keeps a key locked; that of a lost machine may last 10 s.
    """
    stored: Enqueued = yield enqueue(sql, results.jobs, promoting=False, is_repeated=is_repeated, rules=results.rules)
    logger.warning(
        "a concurrency key was locked for more than %d s: its tasks are stored blocked, and maintenance promotes them",
        KEY_WAIT_SECONDS,
    )
    return replace(stored, blocked=(), freed={})


def _may_resend(error: StoreError) -> bool:
    # When finished jobs are deleted, a job that is missing may have run already: sent again, it could run twice.
    return error.applied == "unknown" and steady_queue.preserve_finished_jobs


def _enqueue_error(error: StoreError, jobs: Sequence[NewJob], *, stored: str | None = None) -> EnqueueError:
    ids = [str(job.id) for job in jobs]
    what = f"task {jobs[0].task_path} was" if len(jobs) == 1 else f"{len(jobs)} tasks were"
    if (stored or error.applied) == "unknown":
        message = f"it is unknown whether {what} stored: the reply of the database was lost ({error})"
        return EnqueueError(message, stored="unknown", result_ids=ids)
    return EnqueueError(f"{what} not stored: {error}", stored="no", result_ids=ids)
