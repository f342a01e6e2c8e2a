"""TickEnqueuer: enqueues the ticks of recurring tasks that are due, each once, however many schedulers try."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import CancelScope

from steady_queue import events
from steady_queue.aio.scheduler.other_backends import failure_event
from steady_queue.errors import StoreDataError
from steady_queue.jobs.compat import task_backends, task_enqueued
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.enqueueing.enqueued import Results
from steady_queue.jobs.enqueueing.new_jobs import build_jobs_from_text
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.task_signals import asend, is_observed
from steady_queue.recurring.catch_up import MISSED_AFTER, choose_ticks
from steady_queue.recurring.definitions import belongs_to_other_backend
from steady_queue.store.ids import new_job_ids
from steady_queue.store.job import OnDuplicate, Uniqueness, Until
from steady_queue.store.operations.recurring.ticks import Tick, enqueue_ticks, unique_key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.scheduler.entry_disabler import EntryDisabler
    from steady_queue.aio.scheduler.other_backends import OtherBackends
    from steady_queue.aio.scheduler.timetable import Planned
    from steady_queue.aio.timing import CooperativeYield
    from steady_queue.events import Events
    from steady_queue.jobs.definition.uniqueness import Unique
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.recurring.ticks import EnqueuedTicks

    #: The entries of ticks, by the ids of the ticks.
    Origins = Mapping[UUID, Planned]

#: The number of ticks in one transaction: the drivers write each of its statements without yielding.
BATCH_SIZE = 100


class TickEnqueuer:
    """Enqueues ticks. An entry whose task cannot be stored is disabled."""

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        other_backends: OtherBackends,
        disabler: EntryDisabler,
        wake_all: Callable[[], Awaitable[None]],
        cooperative_yield: CooperativeYield,
        events: Events,
    ) -> None:
        self._driver = driver
        self._other_backends = other_backends
        self._disabler = disabler
        self._wake_all = wake_all
        self._yield = cooperative_yield
        self._events = events

    async def enqueue_due(self, due: Sequence[Planned], now: datetime) -> list[tuple[Planned, datetime]]:
        """Enqueue the ticks of these entries up to now; returns until when the ticks of each have been handled."""
        ticks: list[Tick] = []
        origins: dict[UUID, Planned] = {}
        done: list[tuple[Planned, datetime]] = []
        free_places = self._other_backends.free_places
        for planned in due:
            await self._yield.yield_if_due()
            moments, until = await _moments(planned, now)
            done.append((planned, until))
            new_ticks = await self._build_ticks(planned, moments, free_places)
            free_places -= sum(1 for tick in new_ticks if tick.job is None)
            ticks += new_ticks
            origins.update((tick.id, planned) for tick in new_ticks)
        for at in range(0, len(ticks), BATCH_SIZE):
            batch = ticks[at : at + BATCH_SIZE]
            # A shutdown between the record of a tick and its task in another backend would lose the task.
            with CancelScope(shield=any(tick.job is None for tick in batch)):
                stored = await self._enqueue(batch, origins)
            await _send_enqueued([tick for tick in batch if tick.id in stored], origins)
        return done

    async def _build_ticks(self, planned: Planned, moments: Sequence[datetime], free_places: int) -> list[Tick]:
        entry = planned.entry
        key, changed = entry.new.task_key, entry.updated_at
        if belongs_to_other_backend(planned.task):
            if len(moments) > free_places:
                self._events.emit(failure_event(planned, TimeoutError("too many tasks wait for their own backends")))
                return []
            ids = new_job_ids(len(moments))
            return [Tick(key, moment, changed, id_, None) for moment, id_ in zip(moments, ids, strict=True)]
        try:
            jobs = await build_jobs_from_text(planned.task, entry.new.arguments, len(moments))
        except Exception as error:
            # The function of its concurrency key fails now, and may succeed the next time.
            self._events.emit(failure_event(planned, error))
            return []
        rule = _rule_of(planned)
        if entry.new.skip_if_unfinished:
            jobs = [job._replace(unique_key=unique_key_of(key), unique_until=Until.FINISHED) for job in jobs]
        return [Tick(key, moment, changed, job.id, job, rule) for moment, job in zip(moments, jobs, strict=True)]

    async def _enqueue(self, ticks: Sequence[Tick], origins: Origins) -> set[UUID]:
        """Store the ticks, or pass them to their backends; returns the ids of the ticks whose jobs are stored now."""
        try:
            done = await self._driver.run(enqueue_ticks(self._driver.sql, ticks, limits_in_force))
        except StoreDataError as error:
            # One of them cannot be stored: halve them until it is alone, so that the others are enqueued.
            if len(ticks) == 1:
                await self._disabler.disable(origins[ticks[0].id].entry, error)
                return set()
            middle = len(ticks) // 2
            return await self._enqueue(ticks[:middle], origins) | await self._enqueue(ticks[middle:], origins)
        won = set(done.ids)
        foreign = [one.id for one in ticks if one.job is None and one.id in won]
        for id_ in foreign:
            self._other_backends.put(origins[id_])
        self._emit(ticks, done)
        if won:
            await self._wake_all()
        return won.difference(foreign, done.discarded, done.unfinished)

    def _emit(self, ticks: Sequence[Tick], done: EnqueuedTicks) -> None:
        ours = set(done.ids)
        stored_ids = ours - done.discarded - done.unfinished
        stored = len(stored_ids)
        if stored and self._events.is_wanted(events.RecurringEnqueued):
            enqueued = [(one.task_key, one.run_at, one.id) for one in ticks if one.id in stored_ids]
            self._events.emit(events.RecurringEnqueued(ticks=enqueued, count=stored, discarded=len(done.discarded)))
        if len(ours) < len(ticks) and self._events.is_wanted(events.RecurringSkipped):
            others = [(one.task_key, one.run_at) for one in ticks if one.id not in ours]
            self._events.emit(events.RecurringSkipped(ticks=others, count=len(others)))
        for one in ticks if done.discarded or done.unfinished else ():
            if one.id in done.discarded:
                self._events.emit(events.RecurringDiscarded(key=one.task_key, run_at=one.run_at))
            if one.id in done.unfinished:
                self._events.emit(events.RecurringUnfinished(key=one.task_key, run_at=one.run_at))
        if done.replaced:
            self._events.emit(events.JobsReplaced(job_ids=done.replaced, count=len(done.replaced)))


def _rule_of(planned: Planned) -> Uniqueness | None:
    """Return how the jobs of an entry take their unique key, if they have one."""
    if planned.entry.new.skip_if_unfinished:
        return Uniqueness(Until.FINISHED, OnDuplicate.SKIP)
    unique: Unique | None = getattr(planned.task, "unique", None)
    return None if unique is None else unique.rule


async def _send_enqueued(ticks: Sequence[Tick], origins: Origins) -> None:
    """Send `task_enqueued` for jobs that are stored, if it has a receiver."""
    jobs = [one.job for one in ticks if one.job is not None]
    for alias in {job.backend for job in jobs}:
        sender = type(task_backends[alias])
        if is_observed(task_enqueued, sender):
            sent = [job for job in jobs if job.backend == alias]
            results = Results([TaskCall(origins[job.id].task) for job in sent], sent)
            await asend(task_enqueued, sender, results)


async def _moments(planned: Planned, now: datetime) -> tuple[list[datetime], datetime]:
    """Return which ticks of an entry are enqueued now, and until when all of its ticks have been handled then."""
    if planned.tick is not None and planned.tick > now - MISSED_AFTER:
        # A tick after it, if there is one, is due in the next turn.
        return [planned.tick], planned.tick
    choice = (planned.schedule, planned.entry.new.catch_up, planned.after, now)
    # Computing all missed ticks may take long.
    if planned.entry.new.catch_up == "all":
        return await asyncio.to_thread(choose_ticks, *choice), now
    return choose_ticks(*choice), now
