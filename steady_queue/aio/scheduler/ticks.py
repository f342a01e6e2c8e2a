"""TickEnqueuer: the ticks of recurring tasks that are due are enqueued, each once, whoever else tries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import CancelScope

from steady_queue import events
from steady_queue.aio.scheduler.other_backends import failed
from steady_queue.errors import StoreDataError
from steady_queue.jobs.compat import task_backends, task_enqueued
from steady_queue.jobs.enqueue import stored_calls
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.results import Results
from steady_queue.jobs.task import TaskCall
from steady_queue.jobs.task_signals import asend, is_heard
from steady_queue.recurring.catch_up import LATE, chosen
from steady_queue.recurring.definitions import is_elsewhere
from steady_queue.store.ids import new_job_ids
from steady_queue.store.operations.ticks import Tick, enqueue_ticks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.scheduler.other_backends import OtherBackends
    from steady_queue.aio.scheduler.timetable import Planned
    from steady_queue.aio.timing import CooperativeYield
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.recurring import Entry
    from steady_queue.store.operations.ticks import EnqueuedTicks

    #: The entries of ticks, by the ids of these.
    Origins = Mapping[UUID, Planned]

#: So many ticks are enqueued in one transaction: the drivers write each statement of it without a pause.
BATCH = 100


class TickEnqueuer:
    """Enqueues what is due. An entry whose task cannot be stored is switched off."""

    name = "scheduler"

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        elsewhere: OtherBackends,
        switch_off: Callable[[Entry, Exception], Awaitable[None]],
        made_ready: Callable[[], Awaitable[None]],
        breath: CooperativeYield,
        events: Events,
    ) -> None:
        self._driver = driver
        self._elsewhere = elsewhere
        self._switch_off = switch_off
        self._made_ready = made_ready
        self._breath = breath
        self._events = events

    async def fire(self, due: Sequence[Planned], now: datetime) -> list[tuple[Planned, datetime]]:
        """Enqueue their ticks up to now; returns up to when each has been dealt with."""
        ticks: list[Tick] = []
        origins: dict[UUID, Planned] = {}
        done: list[tuple[Planned, datetime]] = []
        room = self._elsewhere.room
        for planned in due:
            await self._breath.take()
            moments, until = await _moments(planned, now)
            done.append((planned, until))
            made = await self._made(planned, moments, room)
            room -= sum(1 for tick in made if tick.job is None)
            ticks += made
            origins.update((tick.id, planned) for tick in made)
        for at in range(0, len(ticks), BATCH):
            batch = ticks[at : at + BATCH]
            # A stop between the record of a tick and its task in another backend would lose the task.
            with CancelScope(shield=any(tick.job is None for tick in batch)):
                stored = await self._enqueue(batch, origins)
            await _announce([tick for tick in batch if tick.id in stored], origins)
        return done

    async def _made(self, planned: Planned, moments: Sequence[datetime], room: int) -> list[Tick]:
        entry = planned.entry
        key, changed = entry.new.task_key, entry.updated_at
        if is_elsewhere(planned.task):
            if len(moments) > room:
                self._events.emit(failed(planned, TimeoutError("too many tasks wait for their own backends")))
                return []
            ids = new_job_ids(len(moments))
            return [Tick(key, moment, changed, id_, None) for moment, id_ in zip(moments, ids, strict=True)]
        try:
            jobs = await stored_calls(planned.task, entry.new.arguments, len(moments))
        except Exception as error:
            # What its concurrency key is made of fails now, and perhaps not the next time.
            self._events.emit(failed(planned, error))
            return []
        return [Tick(key, moment, changed, job.id, job) for moment, job in zip(moments, jobs, strict=True)]

    async def _enqueue(self, ticks: Sequence[Tick], origins: Origins) -> set[UUID]:
        """Store them, or hand them to their backends; returns those whose jobs are there now."""
        try:
            done = await self._driver.run(enqueue_ticks(self._driver.sql, ticks, limits_in_force))
        except StoreDataError as error:
            # Something in them cannot be stored: find it, so that the others fire.
            if len(ticks) == 1:
                await self._switch_off(origins[ticks[0].id].entry, error)
                return set()
            middle = len(ticks) // 2
            return await self._enqueue(ticks[:middle], origins) | await self._enqueue(ticks[middle:], origins)
        won = set(done.ids)
        foreign = [one.id for one in ticks if one.job is None and one.id in won]
        for id_ in foreign:
            self._elsewhere.put(origins[id_])
        self._tell(ticks, done)
        if won:
            await self._made_ready()
        return won.difference(foreign, done.discarded)

    def _tell(self, ticks: Sequence[Tick], done: EnqueuedTicks) -> None:
        ours = set(done.ids)
        stayed = len(ours) - len(done.discarded)
        if stayed and self._events.hears(events.RecurringEnqueued):
            told = [(one.task_key, one.run_at, one.id) for one in ticks if one.id in ours - done.discarded]
            self._events.emit(events.RecurringEnqueued(ticks=told, count=stayed, discarded=len(done.discarded)))
        if len(ours) < len(ticks) and self._events.hears(events.RecurringSkipped):
            others = [(one.task_key, one.run_at) for one in ticks if one.id not in ours]
            self._events.emit(events.RecurringSkipped(ticks=others, count=len(others)))
        for one in ticks if done.discarded else ():
            if one.id in done.discarded:
                self._events.emit(events.RecurringDiscarded(key=one.task_key, run_at=one.run_at))


async def _announce(ticks: Sequence[Tick], origins: Origins) -> None:
    """Send `task_enqueued` of jobs that are stored, if anybody hears it."""
    jobs = [one.job for one in ticks if one.job is not None]
    for alias in {job.backend for job in jobs}:
        sender = type(task_backends[alias])
        if is_heard(task_enqueued, sender):
            theirs = [job for job in jobs if job.backend == alias]
            results = Results([TaskCall(origins[job.id].task) for job in theirs], theirs)
            await asend(task_enqueued, sender, results)


async def _moments(planned: Planned, now: datetime) -> tuple[list[datetime], datetime]:
    """Which of its ticks are enqueued now, and up to when all have been dealt with."""
    if planned.tick is not None and planned.tick > now - LATE:
        # What came after it, if anything, is due in the next turn.
        return [planned.tick], planned.tick
    choice = (planned.schedule, planned.entry.new.catch_up, planned.after, now)
    # To look at all that was missed takes its time.
    if planned.entry.new.catch_up == "all":
        return await asyncio.to_thread(chosen, *choice), now
    return chosen(*choice), now
