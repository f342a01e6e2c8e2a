"""Waiting: for the end of a task, or for everything that changes on the way.

The watcher of the process reads the jobs (see db/watcher.py): on connections of its own, so it never sees what the
caller's transaction has not committed. No worker does either, which is why waiting inside a transaction is refused.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import aclosing, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import connections
from django.db.transaction import TransactionManagementError

from steady_queue.db import loop_connections
from steady_queue.db.aliases import django_driver, is_in_memory, queue_alias
from steady_queue.db.transactions import arun_one, async_connection, refused_in_async_code, run_one
from steady_queue.db.watch import POLLING, Watch
from steady_queue.db.watcher import watcher
from steady_queue.errors import StoreError
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.jobs.definition.durations import read_seconds
from steady_queue.jobs.results import results
from steady_queue.jobs.results.task_result import state_of
from steady_queue.jobs.results.updates import Changes
from steady_queue.store.job import ENDED, JobRecord
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from uuid import UUID

    from steady_queue.jobs.results.task_result import SteadyQueueResult
    from steady_queue.jobs.results.updates import Update
    from steady_queue.store.job import JobState

R = TypeVar("R", bound="SteadyQueueResult[Any]")
#: Seconds, or None to wait without limit.
Timeout = float | timedelta | None


def wait(result: R, timeout: Timeout) -> R:
    """Block until the task has ended."""
    waiting = _Waiting(result, timeout)
    if _is_in_event_loop():
        raise refused_in_async_code("instead of result.wait(...), use: await result.awaited(...)")
    alias = queue_alias()
    transaction = _open_transaction(alias, result)
    if transaction is not None or is_in_memory(alias):
        return _finish(result, _read_until_ended(waiting, transaction))
    woken = threading.Event()
    watch = Watch(waiting.job_id, woken.set)
    watcher(alias).add(watch)
    try:
        while not watch.is_over:
            if not woken.wait(waiting.left_seconds()):
                return _finish(result, _read_last(waiting, watch))
            woken.clear()
    finally:
        watcher(alias).remove(watch)
    return _finish(result, waiting.outcome_of(watch))


async def awaited(result: R, timeout: Timeout) -> R:
    """Wait until the task has ended."""
    async with aclosing(_sightings(_Waiting(result, timeout), follows=False)) as sightings:
        async for seen in sightings:
            if isinstance(seen, JobRecord) and seen.status in ENDED:
                return _finish(result, seen)
    raise AssertionError("unreachable")


async def updates(result: SteadyQueueResult[Any], timeout: Timeout) -> AsyncGenerator[Update, None]:
    """Yield what changes until the task has ended."""
    changes = Changes()
    async with aclosing(_sightings(_Waiting(result, timeout), follows=True)) as sightings:
        async for seen in sightings:
            if isinstance(seen, JobRecord) and seen.status in ENDED:
                _finish(result, seen)
            for update in changes.find(seen):
                yield update


def _finish(result: R, record: JobRecord) -> R:
    result._copy(results.of_record(record))
    return result


class _Waiting:
    """One wait for a result: until when, and what to raise."""

    def __init__(self, result: SteadyQueueResult[Any], timeout: Timeout) -> None:
        self.result = result
        self.job_id: UUID = results.parse_id(result.id)
        self.label = f"the task {result.task.module_path} ({result.id})"
        self._seconds = _seconds(timeout)
        self._started_at = time.monotonic()

    def waited_seconds(self) -> float:
        return time.monotonic() - self._started_at

    def left_seconds(self) -> float | None:
        return None if self._seconds is None else max(0.0, self._seconds - self.waited_seconds())

    def timed_out(self, seen: JobState | JobRecord | None) -> TimeoutError:
        state = "its state is unknown" if seen is None else f"it is {state_of(seen)}"
        return TimeoutError(f"{self.label} has not ended within {self._seconds:g} s: {state}")

    def last_outcome(self, found: list[JobRecord]) -> JobRecord:
        """Return what was read after the timeout, if the job has ended."""
        if not found:
            raise self.missing(was_seen=False)
        if found[0].status not in ENDED:
            raise self.timed_out(found[0])
        return found[0]

    def outcome_of(self, watch: Watch) -> JobRecord:
        """Return the record of a job that has ended; raises if there is none."""
        if watch.error is not None:
            raise watch.error
        if watch.record is None:
            raise self.missing(was_seen=watch.seen is not None)
        return watch.record

    def missing(self, *, was_seen: bool) -> TaskResultDoesNotExist:
        if not was_seen:
            return results.no_result(self.job_id)
        return TaskResultDoesNotExist(
            f"{self.label} was deleted while its result was awaited. A finished task is deleted at once if"
            " steady_queue.preserve_finished_jobs is False; other tasks are deleted if they are discarded"
        )

    def refused(self, alias: str) -> TransactionManagementError:
        return TransactionManagementError(
            f"a transaction is open on the database {alias!r}: {self.label} may be visible to workers only after its"
            " commit, so waiting for it could last for ever. Wait after the atomic block; in a view with"
            " ATOMIC_REQUESTS, use transaction.non_atomic_requests"
        )


def _seconds(timeout: Timeout) -> float | None:
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float, timedelta)):
        raise TypeError(f"timeout must be a number of seconds, a timedelta or None, not {type(timeout).__name__}")
    seconds = read_seconds(timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout must not be negative: {timeout!r}")
    # The locks of threads cannot wait longer than this.
    return None if seconds > threading.TIMEOUT_MAX else seconds


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")


def _open_transaction(alias: str, result: SteadyQueueResult[Any]) -> str | None:
    """Return the alias of the database on which a transaction of the caller is open that may hide the job, or None."""
    if django_driver(alias).in_transaction:
        return alias
    using: str = getattr(result.task.get_backend(), "commit_with", alias)
    return using if connections[using].in_atomic_block else None


# -- with the caller's own connection ---------------------------------------------------------------------------------


def _read_until_ended(waiting: _Waiting, transaction: str | None) -> JobRecord:
    """Read the job on Django's connection: in a transaction only once, and in memory until it has ended."""
    while True:
        record = _own_record(waiting, transaction, run_one(lambda sql: find_jobs(sql, [waiting.job_id])))
        if record.status in ENDED:
            return record
        time.sleep(_pause_seconds(waiting, record))


async def _aread_until_ended(waiting: _Waiting, transaction: str | None) -> AsyncGenerator[JobState | JobRecord, None]:
    while True:
        found = await arun_one(lambda sql: find_jobs(sql, [waiting.job_id]))
        record = _own_record(waiting, transaction, found)
        yield record
        if record.status in ENDED:
            return
        await asyncio.sleep(_pause_seconds(waiting, record))


def _own_record(waiting: _Waiting, transaction: str | None, found: list[JobRecord]) -> JobRecord:
    if found and (transaction is None or found[0].status in ENDED):
        return found[0]
    if transaction is not None:
        raise waiting.refused(transaction)
    raise waiting.missing(was_seen=False)


def _pause_seconds(waiting: _Waiting, record: JobRecord) -> float:
    pause, left = POLLING.pause_seconds(waiting.waited_seconds()), waiting.left_seconds()
    if left is not None and left <= 0:
        raise waiting.timed_out(record)
    return pause if left is None else min(pause, left)


def _read_last(waiting: _Waiting, watch: Watch) -> JobRecord:
    """Read a job whose end the watcher has not seen in time: with a short timeout it may not have read it at all."""
    try:
        found = run_one(lambda sql: find_jobs(sql, [waiting.job_id]))
    except StoreError:
        raise waiting.timed_out(watch.seen) from None
    return waiting.last_outcome(found)


async def _aread_last(waiting: _Waiting, watch: Watch) -> JobRecord:
    try:
        found = await arun_one(lambda sql: find_jobs(sql, [waiting.job_id]))
    except StoreError:
        raise waiting.timed_out(watch.seen) from None
    return waiting.last_outcome(found)


# -- with the watcher -------------------------------------------------------------------------------------------------


async def _sightings(waiting: _Waiting, *, follows: bool) -> AsyncGenerator[JobState | JobRecord, None]:
    """Yield what is read of the job whenever it has changed; the last is its record after it has ended."""
    alias = queue_alias()
    if loop_connections.prefers_django(alias, async_connection()):
        transaction = await sync_to_async(_open_transaction, thread_sensitive=True)(alias, waiting.result)
        if transaction is not None or is_in_memory(alias):
            async with aclosing(_aread_until_ended(waiting, transaction)) as records:
                async for record in records:
                    yield record
            return
    loop, woken = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed while the task waited
            loop.call_soon_threadsafe(woken.set)

    watch = Watch(waiting.job_id, wake, follows=follows)
    watcher(alias).add(watch)
    try:
        while not watch.is_over:
            try:
                async with asyncio.timeout(waiting.left_seconds()):
                    await woken.wait()
            except TimeoutError:
                yield await _aread_last(waiting, watch)
                return
            woken.clear()
            if not watch.is_over and watch.seen is not None:
                yield watch.seen
        yield waiting.outcome_of(watch)
    finally:
        watcher(alias).remove(watch)
