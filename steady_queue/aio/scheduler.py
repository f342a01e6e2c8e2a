"""Scheduler: enqueues recurring tasks at their times. Any number of them may run: each tick is enqueued once.

The database's clock says what is due: ticks in (last, now], never "does now match". An entry that cannot fire is
switched off with the reason, and the others fire.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import steady_queue
from steady_queue import events
from steady_queue.aio.reports import report_of
from steady_queue.aio.timetable import Planned, Timetable
from steady_queue.catch_up import LATE, chosen
from steady_queue.enqueue import stored_calls
from steady_queue.errors import StoreDataError
from steady_queue.store import recurring
from steady_queue.store.tick import Tick, clear_ticks, tick

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from steady_queue.aio.clock import Clock
    from steady_queue.aio.outage import Outage
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.recurring import NewEntry
    from steady_queue.store.tick import Ticked

#: How soon edits are noticed, in seconds.
LOOK = 3.0
#: How often old records are cleared, in seconds, and how long they are kept at least.
CLEAR = 60.0
KEEP = timedelta(days=1)
#: So many entries fire in one transaction.
BATCH = 250
#: After so much computing others may go on, in seconds.
BREATH = 0.005


class Scheduler:
    """Keeps a timetable of all entries and sleeps until its next line."""

    name = "scheduler"

    def __init__(
        self,
        *,
        static: Callable[[], Sequence[NewEntry]],
        driver: AsyncDriver,
        made_ready: Callable[[], Awaitable[None]],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self._static = static
        self._driver = driver
        self._made_ready = made_ready
        self._clock = clock
        self._events = events
        self._outage = outage
        self._timetable = Timetable()
        self._asked = self._breath = 0.0
        self._found = 0
        self._last_look: float | None = None
        self._last_clear: float | None = None
        self._last_turn: float | None = None

    @property
    def polled_ago(self) -> float | None:
        """Seconds since it last looked at the timetable with success."""
        return None if self._last_turn is None else self._clock.monotonic() - self._last_turn

    async def run(self) -> None:
        is_persisted = False
        while True:
            try:
                if not is_persisted:
                    static = await asyncio.to_thread(self._static)
                    await self._driver.run(recurring.persist(self._driver.sql, static))
                    is_persisted = True
                pause = await self.turn()
                if self._events.hears(events.Polled):
                    took = self._spent() * 1000
                    self._events.tell(events.Polled(actor=self.name, found=self._found, milliseconds=took))
            except Exception as error:
                await self._outage.wait(self.name, error)
                continue
            self._last_turn = self._clock.monotonic()
            self._outage.over(self.name)
            await asyncio.sleep(pause)

    async def turn(self) -> float:
        """Enqueue what is due; returns how long to sleep, in seconds."""
        now = await self._look()
        await self._clear(now)
        is_behind = await self._fire(now)
        if is_behind:
            return 0.0
        due = self._timetable.next_at
        # A little more than the time that is left: due by the database's clock, which has moved on by then.
        return LOOK if due is None else min(LOOK, max(0.0, (due - now).total_seconds() - self._spent()) + 0.001)

    async def _breathe(self) -> None:
        """Let others go on, if they have waited for a while."""
        if self._clock.monotonic() - self._breath > BREATH:
            await asyncio.sleep(0)
            self._breath = self._clock.monotonic()

    def _spent(self) -> float:
        return self._clock.monotonic() - self._asked

    # -- the timetable ------------------------------------------------------------------------------------------------

    async def _look(self) -> datetime:
        """The database's time; now and then, what has changed as well."""
        self._asked = asked = self._clock.monotonic()
        if self._last_look is not None and asked - self._last_look < LOOK:
            return await self._driver.run(recurring.clock(self._driver.sql))
        listed = await self._driver.run(recurring.listing(self._driver.sql))
        self._timetable.keep_only(listed.changed)
        changed = self._timetable.changed(listed.changed)
        if changed:
            found = await self._driver.run(recurring.entries(self._driver.sql, changed))
            for entry in found:
                await self._breathe()
                try:
                    self._timetable.add(entry, listed.now)
                except Exception as error:  # of its schedule, its task, its queue: all of them data
                    await self._disable(entry.new.task_key, error)
        self._last_look = asked
        return listed.now

    async def _disable(self, key: str, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"[:2000].replace("\x00", "")
        reason = reason.encode("utf-8", "backslashreplace").decode()
        self._timetable.drop(key)
        if await self._driver.run(recurring.switch(self._driver.sql, key, on=False, reason=reason)):
            self._events.tell(events.RecurringDisabled(key=key, reason=reason))

    async def _clear(self, now: datetime) -> None:
        asked = self._clock.monotonic()
        if self._last_clear is not None and asked - self._last_clear < CLEAR:
            return
        keep = max(KEEP, steady_queue.clear_finished_jobs_after or KEEP)
        for _ in range(20):
            if await self._driver.run(clear_ticks(self._driver.sql, now, keep)) == 0:
                break
        self._last_clear = asked

    # -- firing -------------------------------------------------------------------------------------------------------

    async def _fire(self, now: datetime) -> bool:
        """Enqueue a batch of what is due; True when there may be more."""
        due = self._timetable.due(now, BATCH)
        self._found = len(due)
        if not due:
            return False
        ticks: list[Tick] = []
        for planned in due:
            await self._breathe()
            ticks += await self._ticks(planned, now)
        for at in range(0, len(ticks), BATCH):
            await self._enqueue(ticks[at : at + BATCH])
        for planned in due:
            await self._breathe()
            self._timetable.move_on(planned, now)
        return len(due) == BATCH

    async def _ticks(self, planned: Planned, now: datetime) -> list[Tick]:
        entry, after = planned.entry, planned.after
        choice = (planned.schedule, entry.new.catch_up, after, now)
        # To look at all that was missed takes its time.
        is_long = entry.new.catch_up == "all" and now - after > LATE
        moments = await asyncio.to_thread(chosen, *choice) if is_long else chosen(*choice)
        try:
            jobs = await stored_calls(planned.task, entry.new.arguments, len(moments))
        except Exception as error:
            # What its concurrency key is made of fails now, and perhaps not the next time.
            told = report_of(error).traceback
            self._events.tell(events.RecurringFailed(key=entry.new.task_key, error=told, exception=error))
            return []
        return [
            Tick(entry.new.task_key, moment, entry.updated_at, job) for moment, job in zip(moments, jobs, strict=True)
        ]

    async def _enqueue(self, ticks: Sequence[Tick]) -> None:
        if not ticks:
            return
        try:
            done = await self._driver.run(tick(self._driver.sql, ticks))
        except StoreDataError as error:
            await self._one_by_one(ticks, error)
            return
        self._tell(ticks, done)
        if done.jobs:
            await self._made_ready()

    def _tell(self, ticks: Sequence[Tick], done: Ticked) -> None:
        ids = set(done.jobs)
        if ids and self._events.hears(events.RecurringEnqueued):
            ours = [(tick.task_key, tick.run_at, tick.job.id) for tick in ticks if tick.job.id in ids]
            self._events.tell(events.RecurringEnqueued(ticks=ours, count=len(ids), discarded=len(done.discarded)))
        if len(ids) < len(ticks) and self._events.hears(events.RecurringSkipped):
            others = [(tick.task_key, tick.run_at) for tick in ticks if tick.job.id not in ids]
            self._events.tell(events.RecurringSkipped(ticks=others, count=len(others)))

    async def _one_by_one(self, ticks: Sequence[Tick], error: StoreDataError) -> None:
        """Something in them cannot be stored: find it, so that the others fire."""
        if len(ticks) == 1:
            await self._disable(ticks[0].task_key, error)
            return
        middle = len(ticks) // 2
        await self._enqueue(ticks[:middle])
        await self._enqueue(ticks[middle:])
