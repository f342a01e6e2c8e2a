"""Statistics writer: writes what TaskCounts has counted, after each heartbeat and at the stop of the process.

It is a service of its own: neither a statistic that cannot be written nor one that takes long delays a heartbeat. What
could not be written is kept for the next time.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from anyio import move_on_after

from steady_queue import events
from steady_queue.errors import StoreError
from steady_queue.store.operations.maintenance.statistics import write_minutes
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.deadline_driver import DeadlineDriver
    from steady_queue.aio.worker.reporting.task_counts import TaskCounts

#: How long a write may take, and how long the last one may delay the stop of the process.
WRITE_SECONDS, FLUSH_SECONDS = 5.0, 1.0
#: How often counts are summed up.
SUM_UP_SECONDS = 5.0
#: Seconds between two events for writes that fail.
REPEAT_SECONDS = 600.0


class StatisticsWriter:
    """Writes nothing if nothing has run."""

    def __init__(self, *, process_id: UUID, counts: TaskCounts, driver: DeadlineDriver, context: Context) -> None:
        self._process_id = process_id
        self._counts = counts
        self._driver = driver
        self._clock = context.clock
        self._events = context.events
        self._has_beaten = asyncio.Event()
        self._is_writing = asyncio.Lock()
        self._emitted_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def after_heartbeat(self, now: datetime) -> None:
        """Called with the time of the database when a heartbeat, or the registration, has succeeded."""
        self._counts.set_time(now, monotonic())
        self._has_beaten.set()

    async def run(self) -> None:
        try:
            self._tick()
            while True:
                await self._has_beaten.wait()
                self._has_beaten.clear()
                await self.write()
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _tick(self) -> None:
        now = monotonic()
        self._counts.change_minute(now)
        self._counts.sum_up()
        # The end of a minute is known exactly enough: the clock of the database is only asked by heartbeats.
        seconds = max(0.0, min(SUM_UP_SECONDS, self._counts.seconds_left(now)))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._tick)

    async def write(self) -> None:
        """Write what has changed since the last time. Errors are only reported."""
        async with self._is_writing:
            rows = self._counts.collect(monotonic())
            if not rows:
                return
            try:
                await self._driver.run(write_minutes(self._driver.sql, self._process_id, rows), within=WRITE_SECONDS)
            except Exception as error:
                self._report(error)
            else:
                self._counts.confirm(rows)
                self._emitted_at = None

    async def flush(self) -> None:
        """Write what is left, if that takes no longer than a moment: the process stops."""
        with move_on_after(FLUSH_SECONDS):
            await self.write()

    def _report(self, error: Exception) -> None:
        now = self._clock.monotonic()
        if self._emitted_at is not None and now - self._emitted_at < REPEAT_SECONDS:
            return
        self._emitted_at = now
        text = str(error) if isinstance(error, StoreError) else report_of(error).traceback
        self._events.emit(events.RuntimeFault(where="the statistics could not be written", error=text, exception=error))
