"""Firing: the ticks of recurring tasks that are due are enqueued, each once, whoever else tries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import CancelScope
from asgiref.sync import sync_to_async
from django.db import close_old_connections

from steady_queue import arguments, events
from steady_queue.aio.reports import report_of
from steady_queue.catch_up import LATE, chosen
from steady_queue.enqueue import stored_calls
from steady_queue.errors import StoreDataError
from steady_queue.recurring_task import is_elsewhere
from steady_queue.registry import limits_in_force
from steady_queue.store.identity import new_job_ids
from steady_queue.store.tick import Tick, tick

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.breath import Breath
    from steady_queue.aio.timetable import Planned
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.tick import Ticked

#: So many ticks are enqueued in one transaction: the drivers write each statement of it without a pause.
BATCH = 100
#: How long another backend may take to enqueue a task, in seconds: the other ticks wait for it.
WITHIN = 10.0


class Firing:
    """Enqueues what is due. An entry whose task cannot be stored is switched off."""

    name = "scheduler"

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        switch_off: Callable[[str, Exception], Awaitable[None]],
        made_ready: Callable[[], Awaitable[None]],
        breath: Breath,
        events: Events,
    ) -> None:
        self._driver = driver
        self._switch_off = switch_off
        self._made_ready = made_ready
        self._breath = breath
        self._events = events

    async def fire(self, due: Sequence[Planned], now: datetime) -> list[tuple[Planned, datetime]]:
        """Enqueue their ticks up to now; returns up to when each has been dealt with."""
        ticks: list[Tick] = []
        elsewhere: dict[UUID, Planned] = {}
        done: list[tuple[Planned, datetime]] = []
        for planned in due:
            await self._breath.take()
            moments, until = await _moments(planned, now)
            done.append((planned, until))
            made = await self._made(planned, moments)
            ticks += made
            elsewhere.update((tick.id, planned) for tick in made if tick.job is None)
        for at in range(0, len(ticks), BATCH):
            # A stop between the record of a tick and its task in another backend would lose the task.
            with CancelScope(shield=bool(elsewhere)):
                await self._enqueue(ticks[at : at + BATCH], elsewhere)
        return done

    async def _made(self, planned: Planned, moments: Sequence[datetime]) -> list[Tick]:
        entry = planned.entry
        key, changed = entry.new.task_key, entry.updated_at
        if is_elsewhere(planned.task):
            ids = new_job_ids(len(moments))
            return [Tick(key, moment, changed, id_, None) for moment, id_ in zip(moments, ids, strict=True)]
        try:
            jobs = await stored_calls(planned.task, entry.new.arguments, len(moments))
        except Exception as error:
            # What its concurrency key is made of fails now, and perhaps not the next time.
            self._not_enqueued(key, error)
            return []
        return [Tick(key, moment, changed, job.id, job) for moment, job in zip(moments, jobs, strict=True)]

    async def _enqueue(self, ticks: Sequence[Tick], elsewhere: dict[UUID, Planned]) -> None:
        try:
            done = await self._driver.run(tick(self._driver.sql, ticks, limits_in_force))
        except StoreDataError as error:
            # Something in them cannot be stored: find it, so that the others fire.
            if len(ticks) == 1:
                await self._switch_off(ticks[0].task_key, error)
                return
            middle = len(ticks) // 2
            await self._enqueue(ticks[:middle], elsewhere)
            await self._enqueue(ticks[middle:], elsewhere)
            return
        self._tell(ticks, done)
        if not done.ids:
            return
        await self._made_ready()
        for id_ in done.ids:
            if id_ in elsewhere:
                await self._enqueue_elsewhere(elsewhere[id_])

    async def _enqueue_elsewhere(self, planned: Planned) -> None:
        """By the task's own backend: the tick is recorded, so nobody else does it."""
        new = planned.entry.new
        try:
            args, kwargs = await arguments.aloads(new.arguments)
            await sync_to_async(close_old_connections, thread_sensitive=True)()
            async with asyncio.timeout(WITHIN):
                await planned.task.aenqueue(*args, **kwargs)
        except Exception as error:  # of somebody else's backend
            self._not_enqueued(new.task_key, error)

    def _tell(self, ticks: Sequence[Tick], done: Ticked) -> None:
        ours = set(done.ids)
        stayed = len(ours) - len(done.discarded)
        if stayed and self._events.hears(events.RecurringEnqueued):
            told = [(one.task_key, one.run_at, one.id) for one in ticks if one.id in ours - done.discarded]
            self._events.tell(events.RecurringEnqueued(ticks=told, count=stayed, discarded=len(done.discarded)))
        if len(ours) < len(ticks) and self._events.hears(events.RecurringSkipped):
            others = [(one.task_key, one.run_at) for one in ticks if one.id not in ours]
            self._events.tell(events.RecurringSkipped(ticks=others, count=len(others)))
        for one in ticks if done.discarded else ():
            if one.id in done.discarded:
                self._events.tell(events.RecurringDiscarded(key=one.task_key, run_at=one.run_at))

    def _not_enqueued(self, key: str, error: Exception) -> None:
        told = report_of(error).traceback
        self._events.tell(events.RecurringFailed(key=key, error=told, exception=error))


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
