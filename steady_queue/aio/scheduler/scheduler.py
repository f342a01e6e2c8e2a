"""Scheduler: enqueues recurring tasks at their times. Any number of them may run: each tick is enqueued once.

The database's clock says what is due: ticks in (last, now], never "does now match". An entry that cannot fire is
switched off with the reason, and the others fire. But projects may share a database, and while a new version is brought
out its schedulers run beside the old ones: what another may know better is left alone.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import steady_queue
from steady_queue import events
from steady_queue.aio.scheduler.ticks import BATCH, TickEnqueuer
from steady_queue.aio.scheduler.timetable import Timetable
from steady_queue.aio.timing import CooperativeYield
from steady_queue.errors import ConfigurationError, StoreUnavailable, UnknownTaskError
from steady_queue.jobs.compat import InvalidTask
from steady_queue.jobs.registry import may_be_ours
from steady_queue.store.operations import recurring
from steady_queue.store.operations.ticks import clear_ticks
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from steady_queue.aio.outage import Outage
    from steady_queue.aio.scheduler.other_backends import OtherBackends
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.recurring import Entry, NewEntry

#: How soon edits are noticed, in seconds.
LOOK = 3.0
#: How often old records are cleared, in seconds, and how long they are kept at least.
CLEAR = 60.0
KEEP = timedelta(days=1)


class Scheduler:
    """Keeps a timetable of all entries and sleeps until its next line."""

    name = "scheduler"

    def __init__(
        self,
        *,
        static: Callable[[], Sequence[NewEntry]],
        driver: AsyncDriver,
        elsewhere: OtherBackends,
        made_ready: Callable[[], Awaitable[None]],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self._static = static
        self._driver = driver
        self._clock = clock
        self._events = events
        self._outage = outage
        self._timetable = Timetable()
        self._breath = CooperativeYield(clock)
        self._firing = TickEnqueuer(
            driver=driver,
            elsewhere=elsewhere,
            switch_off=self._disable,
            made_ready=made_ready,
            breath=self._breath,
            events=events,
        )
        self._asked = 0.0
        #: When the entries of the code were stored, by the database's clock.
        self._persisted_at: datetime | None = None
        self._found = 0
        self._last_look: float | None = None
        self._last_clear: float | None = None
        self._last_turn: float | None = None

    @property
    def polled_ago(self) -> float | None:
        """Seconds since it last looked at the timetable with success."""
        return None if self._last_turn is None else self._clock.monotonic() - self._last_turn

    async def run(self) -> None:
        while True:
            try:
                if self._persisted_at is None:
                    await self._persist()
                pause = await self.turn()
                if self._events.hears(events.Polled):
                    took = self._spent() * 1000
                    self._events.emit(events.Polled(actor=self.name, found=self._found, milliseconds=took))
            except Exception as error:
                await self._outage.wait(self.name, error)
                continue
            self._last_turn = self._clock.monotonic()
            self._outage.over(self.name)
            await asyncio.sleep(pause)

    async def _persist(self) -> None:
        """Store the entries of the code: once, so that an old version does not undo what a newer one has stored."""
        static = await asyncio.to_thread(self._static)
        taken = await self._driver.run(recurring.persist(self._driver.sql, static, may_be_ours))
        self._persisted_at = await self._driver.run(recurring.read_database_time(self._driver.sql))
        for key, path in taken.items():
            error = ConfigurationError(f"another project has an entry with this key, of {path}")
            self._events.emit(events.RecurringFailed(key=key, error=str(error), exception=error))

    async def turn(self) -> float:
        """Enqueue what is due; returns how long to sleep, in seconds."""
        now = await self._look()
        fired = self._timetable.due(now, BATCH)
        self._found = len(fired)
        for planned, until in await self._firing.fire(fired, now):
            await self._breath.take()
            self._timetable.move_on(planned, until)
        await self._clear(now)
        looked = self._clock.monotonic() if self._last_look is None else self._last_look
        rest = max(0.0, looked + LOOK - self._clock.monotonic())
        due = self._timetable.next_at
        # A little more than the time that is left: due by the database's clock, which has moved on by then.
        return rest if due is None else min(rest, max(0.0, (due - now).total_seconds() - self._spent()) + 0.001)

    def _spent(self) -> float:
        return self._clock.monotonic() - self._asked

    # -- the timetable ------------------------------------------------------------------------------------------------

    async def _look(self) -> datetime:
        """The database's time; now and then, what has changed as well."""
        self._asked = asked = self._clock.monotonic()
        if self._last_look is not None and asked - self._last_look < LOOK:
            return await self._driver.run(recurring.read_database_time(self._driver.sql))
        listed = await self._driver.run(recurring.list_entries(self._driver.sql))
        self._timetable.keep_only(listed.changed)
        changed = self._timetable.changed(listed.changed)
        if changed:
            found = await self._driver.run(recurring.read_entries(self._driver.sql, changed))
            for entry in found:
                await self._breath.take()
                try:
                    self._timetable.add(entry, listed.now)
                except Exception as error:  # of its schedule, its task, its queue: all of them data
                    await self._cannot_fire(entry, error)
        self._last_look = asked
        return listed.now

    async def _cannot_fire(self, entry: Entry, error: Exception) -> None:
        """Switch it off, unless others may be able to: those with other code than this process."""
        changed, known = entry.updated_at, self._persisted_at
        is_new = known is None or (isinstance(changed, datetime) and changed > known)
        # A queue that it does not know may be one of newer settings.
        is_foreign = isinstance(error, UnknownTaskError) and not may_be_ours(entry.new.task_path)
        if entry.is_static or is_foreign or (is_new and isinstance(error, (UnknownTaskError, InvalidTask))):
            self._timetable.leave(entry)
            self._events.emit(events.RecurringUnavailable(key=entry.new.task_key, reason=str(error)))
        else:
            await self._disable(entry, error)

    async def _disable(self, entry: Entry, error: Exception) -> None:
        key = entry.new.task_key
        reason = f"{type(error).__name__}: {error}"[:2000].replace("\x00", "")
        reason = reason.encode("utf-8", "backslashreplace").decode()
        self._timetable.drop(key)
        # As it was read: what somebody has mended meanwhile stays on.
        if await self._driver.run(recurring.disable_broken(self._driver.sql, key, entry.updated_at, reason)):
            self._events.emit(events.RecurringDisabled(key=key, reason=reason))

    async def _clear(self, now: datetime) -> None:
        asked = self._clock.monotonic()
        if self._last_clear is not None and asked - self._last_clear < CLEAR:
            return
        self._last_clear = asked
        keep = max(KEEP, steady_queue.clear_finished_jobs_after or KEEP)
        try:
            for _ in range(20):
                if await self._driver.run(clear_ticks(self._driver.sql, now, keep)) == 0:
                    break
        except StoreUnavailable:
            raise
        except Exception as error:
            # Old records do no harm: it is told, and what recurs goes on.
            self._events.emit(events.RuntimeFault(where=self.name, error=report_of(error).traceback, exception=error))
