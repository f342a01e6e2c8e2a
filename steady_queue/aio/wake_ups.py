"""WakeUps: wakes the workers and dispatchers of this process, and the workers of other processes.

A wake-up is only a hint that there may be jobs: a service that misses one polls at its own interval.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue.aio.timing import WakeEvent
from steady_queue.db import notify

if TYPE_CHECKING:
    from steady_queue.store.drivers.pool import AsyncDriver


class WakeUps:
    """Has one wake event for each service that sleeps between two polls."""

    def __init__(self, driver: AsyncDriver) -> None:
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._wake_events: list[WakeEvent] = []

    def add_event(self) -> WakeEvent:
        """Return a wake event for one more service."""
        wake_event = WakeEvent()
        self._wake_events.append(wake_event)
        return wake_event

    def wake(self) -> None:
        """Wake the services of this process."""
        for wake_event in self._wake_events:
            wake_event.wake()

    def wake_from_any_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    async def wake_all(self) -> None:
        """Jobs became ready: wake the services of this process and the workers of other processes."""
        await notify.wake_all(self._driver, self.wake)
