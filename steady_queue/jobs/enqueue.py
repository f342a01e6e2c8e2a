"""Enqueue: the only writer of new jobs, one or many, from sync and from async code.

What decides whether a job exists:

- `enqueue()` writes on Django's connection to the queue's database, and so inside the caller's transaction.
- With the queue in another database than the application's, `enqueue_on_commit` (the default) defers the write until
  the application's transaction commits. A crash between the two loses the job: it exists *only if* committed.
- `aenqueue()` writes on a connection of the running loop, in a transaction of its own; called from sync code through
  `async_to_sync` it joins the caller's transaction instead.

Limited jobs are stored blocked and get their slots in a transaction of ours: at once when we own it, else after the
caller's commit. `task_enqueued` is sent after commit.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone, translation

import steady_queue
from steady_queue import arguments, events
from steady_queue.db import notify
from steady_queue.db.transactions import after_commit
from steady_queue.errors import EnqueueError, StoreConflict, StoreError
from steady_queue.jobs.compat import InvalidTask, task_enqueued
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.task import lane_of
from steady_queue.jobs.task_signals import asend, is_heard, send
from steady_queue.store.drivers.error_codes import is_lock_timeout
from steady_queue.store.ids import new_job_ids
from steady_queue.store.job import NewJob
from steady_queue.store.operations.enqueue import admit, enqueue

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.jobs.compat import BaseTaskBackend, Task
    from steady_queue.jobs.results import Results
    from steady_queue.jobs.task import TaskCall
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.enqueue import Enqueued

logger = logging.getLogger("steady_queue")

#: asyncpg takes the last moment that Python knows for infinity.
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
#: Pauses before an enqueue whose answer was lost is sent again, in seconds.
RESEND_AFTER = (0.05, 0.2, 0.5)
#: How long an enqueue waits for a concurrency key that another has locked, in seconds. Those that work hold it for
#: milliseconds; one that has vanished, or is frozen, until the server ends its transaction.
KEY_WAIT_SECONDS = 2


def new_jobs(calls: Sequence[TaskCall], *, limit: int = arguments.MAX_BYTES) -> list[NewJob]:
    """The rows of these calls. Everything that can be wrong with them is found here, before anything is stored."""
    now = _now()
    headers = _headers()
    seen: dict[int, tuple[Any, ...]] = {}
    jobs = []
    for id_, (task, args, kwargs) in zip(new_job_ids(len(calls)), calls, strict=True):
        known = seen.get(id(task))
        if known is None:
            known = seen[id(task)] = _options(task)
        queue_name, path, priority, lane, backend, run_after, concurrency = known
        text = arguments.dumps(args, kwargs, limit=limit)
        if run_after is None and concurrency is None and headers is None:
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now))
        elif concurrency is None:
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now, run_after, headers))
        else:
            key = concurrency.key_for(path, args, kwargs)
            limits = (key, concurrency.to, concurrency.on_conflict, concurrency.overrun_after)
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now, run_after, headers, *limits))
    return jobs


async def stored_calls(task: Task[..., Any], text: str, count: int) -> list[NewJob]:
    """The rows of so many equal calls of a task, whose arguments have been made a text before."""
    queue_name, path, priority, lane, backend, run_after, concurrency = _options(task)
    limits: tuple[Any, ...] = ()
    if concurrency is not None:
        args, kwargs = await arguments.aloads(text)
        key = concurrency.key_for(path, args, kwargs)
        limits = (key, concurrency.to, concurrency.on_conflict, concurrency.overrun_after)
    call = (queue_name, path, text, priority, lane, backend, _now(), run_after, _headers(), *limits)
    return [NewJob(id_, *call) for id_ in new_job_ids(count)]


def _options(task: Task[..., Any]) -> tuple[Any, ...]:
    return (
        task.queue_name,
        task.module_path,
        int(task.priority),
        lane_of(task.func),
        task.backend,
        _instant(task.run_after),
        getattr(task, "concurrency", None),
    )


def _now() -> datetime:
    # In whole milliseconds: SQLite's clock has no more, and nothing may seem to start before it was enqueued.
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _instant(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment, timezone.get_default_timezone())
        instant = aware.astimezone(UTC)
    except OverflowError:
        raise InvalidTask(f"run_after is out of range: {moment!r}") from None
    # MySQL begins with the year 1000.
    if instant.year < 1000 or instant >= END_OF_TIME:
        raise InvalidTask(f"run_after is out of range: {moment!r}")
    return instant


def _headers() -> str | None:
    """The enqueuer's locale and time zone, where they differ from the project's."""
    headers: dict[str, object] = {}
    if (language := translation.get_language()) != settings.LANGUAGE_CODE:
        headers["locale"] = language
    current: tzinfo = timezone.get_current_timezone()
    # A zone of the IANA database by its key; any other by its offset in minutes.
    zone = "UTC" if current is UTC else getattr(current, "key", None)
    if zone is None:
        headers["timezone"] = int((current.utcoffset(None) or timedelta()).total_seconds() // 60)
    elif zone != settings.TIME_ZONE:
        headers["timezone"] = zone
    return json.dumps(headers) if headers else None


# -- from sync code ---------------------------------------------------------------------------------------------------


def store(driver: DjangoDriver, sender: type[BaseTaskBackend], results: Results) -> None:
    """Write the jobs on Django's connection; inside the caller's transaction if there is one."""
    jobs = results.jobs
    joined = driver.in_transaction
    try:
        reserve = None if joined else partial(notify.reserve_notification, driver.alias, driver.sql)
        stored = _write(driver, jobs, promoting=not joined, reserve_notification=reserve)
    except StoreError as error:
        if joined or not _may_resend(error):
            raise _enqueue_error(error, jobs) from error
        stored = _resend(driver, jobs)

    def tell() -> None:
        _discard(results, stored.discarded | (_admit(driver, stored) if stored.blocked else frozenset()))
        notify.wake_workers(driver.alias, driver, notified=stored.notified)
        if is_heard(task_enqueued, sender):
            send(task_enqueued, sender, results.stored)

    if (
        stored.blocked
        or stored.discarded
        or notify.has_listeners(driver.alias, driver.sql)
        or is_heard(task_enqueued, sender)
    ):
        after_commit(driver, tell)


def _write(driver: DjangoDriver, jobs: Sequence[NewJob], *, promoting: bool = True, **options: Any) -> Enqueued:
    """Store the jobs; without their slots where somebody keeps a key locked, which a vanished machine does for long."""
    sql = driver.sql
    try:
        return driver.run(
            enqueue(sql, jobs, promoting=promoting, limits=limits_in_force, wait_seconds=KEY_WAIT_SECONDS, **options)
        )
    except StoreConflict as error:
        if not _may_store_blocked(error, promoting):
            raise
        return _without_slots(driver.run(enqueue(sql, jobs, promoting=False, **options)))


def _may_store_blocked(error: StoreConflict, promoting: bool) -> bool:
    """Whether the jobs can be stored without their slots: only those were missing, in a transaction of ours."""
    return promoting and is_lock_timeout(error)


def _without_slots(stored: Enqueued) -> Enqueued:
    logger.warning(
        "a concurrency key was locked for more than %d s: its tasks are stored blocked, and maintenance promotes them",
        KEY_WAIT_SECONDS,
    )
    return replace(stored, blocked=())


def store_on_commit(using: str, driver: DjangoDriver, sender: type[BaseTaskBackend], results: Results) -> None:
    """Write the jobs when the transaction on `using`, another database, has committed."""
    transaction.on_commit(lambda: store(driver, sender, results), using=using)


def _admit(driver: DjangoDriver, stored: Enqueued) -> frozenset[UUID]:
    try:
        return driver.run(admit(driver.sql, stored.blocked, limits_in_force, wait_seconds=KEY_WAIT_SECONDS))
    except StoreError:
        # The jobs are stored and blocked; the next maintenance turn gives them their slots.
        logger.warning("promotion after commit failed and is left to maintenance", exc_info=True)
        return frozenset()


def _discard(results: Results, discarded: frozenset[UUID]) -> None:
    """Tell of the jobs that found no slot."""
    if discarded:
        results.discard(discarded)
        for id_ in discarded:
            events.emit(events.JobRefused(job_id=id_))


def _resend(driver: DjangoDriver, jobs: Sequence[NewJob]) -> Enqueued:
    last: StoreError | None = None
    for pause in RESEND_AFTER:
        time.sleep(pause)
        driver.connection.close()
        try:
            return _write(driver, jobs, is_repeated=True)
        except StoreError as error:
            last = error
    raise _enqueue_error(last, jobs, stored="unknown") from last


# -- from async code --------------------------------------------------------------------------------------------------


async def astore(alias: str, driver: AsyncDriver, sender: type[BaseTaskBackend], results: Results) -> None:
    """Write the jobs on a connection of the running loop, in a transaction of their own."""
    jobs = results.jobs
    reserve = partial(notify.reserve_notification, alias, driver.sql)
    try:
        stored = await _awrite(driver, jobs, reserve_notification=reserve)
    except StoreError as error:
        if not _may_resend(error):
            raise _enqueue_error(error, jobs) from error
        stored = await _aresend(driver, jobs)
    _discard(results, stored.discarded)
    await notify.awake_workers(alias, driver, notified=stored.notified)
    if is_heard(task_enqueued, sender):
        await asend(task_enqueued, sender, results.stored)


async def _awrite(driver: AsyncDriver, jobs: Sequence[NewJob], **options: Any) -> Enqueued:
    """The same on a connection of the running loop, whose transaction is always ours."""
    sql = driver.sql
    try:
        return await driver.run(enqueue(sql, jobs, limits=limits_in_force, wait_seconds=KEY_WAIT_SECONDS, **options))
    except StoreConflict as error:
        if not _may_store_blocked(error, promoting=True):
            raise
        return _without_slots(await driver.run(enqueue(sql, jobs, promoting=False, **options)))


async def _aresend(driver: AsyncDriver, jobs: Sequence[NewJob]) -> Enqueued:
    last: StoreError | None = None
    for pause in RESEND_AFTER:
        await asyncio.sleep(pause)
        try:
            return await _awrite(driver, jobs, is_repeated=True)
        except StoreError as error:
            last = error
    raise _enqueue_error(last, jobs, stored="unknown") from last


# -- errors -----------------------------------------------------------------------------------------------------------


def _may_resend(error: StoreError) -> bool:
    # When finished jobs are deleted, a job that is missing may have run already: sent again, it could run twice.
    return error.applied == "unknown" and steady_queue.preserve_finished_jobs


def _enqueue_error(error: StoreError | None, jobs: Sequence[NewJob], *, stored: str | None = None) -> EnqueueError:
    ids = [str(job.id) for job in jobs]
    what = f"task {jobs[0].task_path}" if len(jobs) == 1 else f"{len(jobs)} tasks"
    if (stored or (error.applied if error else "no")) == "unknown":
        message = f"it is unknown whether {what} was stored: the database's answer was lost ({error})"
        return EnqueueError(message, stored="unknown", result_ids=ids)
    return EnqueueError(f"{what} was not stored: {error}", stored="no", result_ids=ids)
