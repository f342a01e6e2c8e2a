"""Scheduler: enqueues recurring tasks when they are due. Any number of schedulers may run: each tick is enqueued once.

The database's clock decides which ticks are due: those in (last, now], never "does now match". An entry that cannot be
enqueued is disabled, with the reason, and the other entries are not affected. But several projects may share a
database, and during a deployment schedulers of the old and the new version run at the same time: an entry that another
scheduler may be able to enqueue is not disabled.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import steady_queue
from steady_queue import events
from steady_queue.aio.scheduler.entry_disabler import EntryDisabler
from steady_queue.aio.scheduler.ticks import BATCH_SIZE, TickEnqueuer
from steady_queue.aio.scheduler.timetable import Timetable
from steady_queue.aio.timing import CooperativeYield
from steady_queue.errors import ConfigurationError, StoreUnavailable, UnknownTaskError
from steady_queue.jobs.compat import InvalidTask
from steady_queue.jobs.registry import may_belong_to_project
from steady_queue.store.operations.recurring import entries as recurring
from steady_queue.store.operations.recurring.ticks import clear_ticks
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from steady_queue.aio.context import Context
    from steady_queue.aio.scheduler.other_backends import OtherBackends
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.recurring.entries import Entry, NewEntry

#: How often the entries are compared with the timetable.
LOOK_SECONDS = 3.0
#: How often records of old ticks are deleted, and how long they are kept at least.
CLEAR_SECONDS = 60.0
KEEP_AT_LEAST = timedelta(days=1)
#: Batches of records that are deleted at once.
MAX_CLEAR_BATCHES = 20


class Scheduler:
    """Keeps a timetable of all entries and sleeps until its next tick."""

    name = "scheduler"

    def __init__(
        self,
        *,
        find_static: Callable[[], Sequence[NewEntry]],
        driver: AsyncDriver,
        other_backends: OtherBackends,
        wake_all: Callable[[], Awaitable[None]],
        context: Context,
    ) -> None:
        """`find_static` returns the entries of the code."""
        self._find_static = find_static
        self._driver = driver
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._timetable = Timetable()
        self._yield = CooperativeYield(self._clock)
        self._disabler = EntryDisabler(timetable=self._timetable, driver=driver, events=self._events)
        self._tick_enqueuer = TickEnqueuer(
            driver=driver,
            other_backends=other_backends,
            disabler=self._disabler,
            wake_all=wake_all,
            cooperative_yield=self._yield,
            events=self._events,
        )
        self._turn_began_at = 0.0
        #: When the entries of the code were stored, by the database's clock.
        self._persisted_at: datetime | None = None
        self._due_count = 0
        self._last_look_at: float | None = None
        self._last_clear_at: float | None = None
        self._last_turn_at: float | None = None

    @property
    def polled_ago(self) -> float | None:
        """Seconds since its last successful turn."""
        return None if self._last_turn_at is None else self._clock.monotonic() - self._last_turn_at

    async def run(self) -> None:
        while True:
            try:
                if self._persisted_at is None:
                    await self._persist()
                pause = await self.turn()
                if self._events.is_wanted(events.Polled):
                    milliseconds = self._turn_seconds() * 1000
                    self._events.emit(events.Polled(actor=self.name, found=self._due_count, milliseconds=milliseconds))
            except Exception as error:
                await self._outage.wait(self.name, error)
                continue
            self._last_turn_at = self._clock.monotonic()
            self._outage.succeeded(self.name)
            await asyncio.sleep(pause)

    async def _persist(self) -> None:
        """Store the entries of the code: once, so that an old version does not overwrite those of a newer one."""
        static = await asyncio.to_thread(self._find_static)
        taken = await self._driver.run(recurring.persist(self._driver.sql, static, may_belong_to_project))
        self._persisted_at = await self._driver.run(recurring.read_database_time(self._driver.sql))
        for key, path in taken.items():
            error = ConfigurationError(f"another project has an entry with this key, of {path}")
            self._events.emit(events.RecurringFailed(key=key, error=str(error), exception=error))

    async def turn(self) -> float:
        """Enqueue the ticks that are due; returns how long to sleep, in seconds."""
        now = await self._look()
        due = self._timetable.due(now, BATCH_SIZE)
        self._due_count = len(due)
        for planned, until in await self._tick_enqueuer.enqueue_due(due, now):
            await self._yield.yield_if_due()
            self._timetable.move_on(planned, until)
        await self._clear(now)
        looked_at = self._clock.monotonic() if self._last_look_at is None else self._last_look_at
        until_look = max(0.0, looked_at + LOOK_SECONDS - self._clock.monotonic())
        next_at = self._timetable.next_at
        if next_at is None:
            return until_look
        # A millisecond longer, so that the tick is due by the database's clock.
        return min(until_look, max(0.0, (next_at - now).total_seconds() - self._turn_seconds()) + 0.001)

    def _turn_seconds(self) -> float:
        return self._clock.monotonic() - self._turn_began_at

    # -- the timetable ------------------------------------------------------------------------------------------------

    async def _look(self) -> datetime:
        """Return the database's time; every LOOK_SECONDS, update the timetable as well."""
        self._turn_began_at = began = self._clock.monotonic()
        if self._last_look_at is not None and began - self._last_look_at < LOOK_SECONDS:
            return await self._driver.run(recurring.read_database_time(self._driver.sql))
        listed = await self._driver.run(recurring.list_entries(self._driver.sql))
        self._timetable.keep_only(listed.changed)
        changed = self._timetable.changed(listed.changed)
        if changed:
            found = await self._driver.run(recurring.read_entries(self._driver.sql, changed))
            for entry in found:
                await self._yield.yield_if_due()
                try:
                    self._timetable.add(entry, listed.now)
                except Exception as error:  # of its schedule, its task or its queue: all of them are data
                    await self._reject(entry, error)
        self._last_look_at = began
        return listed.now

    async def _reject(self, entry: Entry, error: Exception) -> None:
        """Disable an entry that cannot be enqueued, unless a scheduler with other code may be able to."""
        changed, persisted = entry.updated_at, self._persisted_at
        is_new = persisted is None or (isinstance(changed, datetime) and changed > persisted)
        # A task or queue that this process does not know may be one of a newer version.
        is_foreign = isinstance(error, UnknownTaskError) and not may_belong_to_project(entry.new.task_path)
        if entry.is_static or is_foreign or (is_new and isinstance(error, (UnknownTaskError, InvalidTask))):
            self._timetable.ignore(entry)
            self._events.emit(events.RecurringUnavailable(key=entry.new.task_key, reason=str(error)))
        else:
            await self._disabler.disable(entry, error)

    async def _clear(self, now: datetime) -> None:
        """Delete the records of old ticks."""
        began = self._clock.monotonic()
        if self._last_clear_at is not None and began - self._last_clear_at < CLEAR_SECONDS:
            return
        self._last_clear_at = began
        keep = max(KEEP_AT_LEAST, steady_queue.clear_finished_jobs_after or KEEP_AT_LEAST)
        try:
            for _ in range(MAX_CLEAR_BATCHES):
                if await self._driver.run(clear_ticks(self._driver.sql, now, keep)) == 0:
                    break
        except StoreUnavailable:
            raise
        except Exception as error:
            # Old records do no harm: the error is reported, and ticks are enqueued as usual.
            self._events.emit(events.RuntimeFault(where=self.name, error=report_of(error).traceback, exception=error))
