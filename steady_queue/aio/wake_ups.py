"""WakeUps: wakes the workers and dispatchers of this process and of other processes.

A wake-up is only a hint that there may be jobs: a service that misses one polls at its own interval.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue.aio.timing import WakeEvent
from steady_queue.db import notify

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.drivers.pool import AsyncDriver


class WakeUps:
    """Has one wake event for each service that sleeps between two polls."""

    def __init__(self, driver: AsyncDriver, is_stopping: Callable[[], bool]) -> None:
        self._driver = driver
        self._is_stopping = is_stopping
        self._loop = asyncio.get_running_loop()
        self._workers: list[WakeEvent] = []
        self._dispatchers: list[WakeEvent] = []

    def add_event(self) -> WakeEvent:
        """Return a wake event for one more worker, or another service that is not a dispatcher."""
        self._workers.append(WakeEvent())
        return self._workers[-1]

    def add_dispatcher_event(self) -> WakeEvent:
        """Return a wake event for one more dispatcher."""
        self._dispatchers.append(WakeEvent())
        return self._dispatchers[-1]

    def wake(self) -> None:
        """Wake the services of this process."""
        for wake_event in (*self._workers, *self._dispatchers):
            wake_event.wake()

    def wake_own_workers(self) -> None:
        """Wake the workers of this process."""
        for wake_event in self._workers:
            wake_event.wake()

    def wake_own_dispatchers(self) -> None:
        """Wake the dispatchers of this process."""
        for wake_event in self._dispatchers:
            wake_event.wake()

    def wake_from_any_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    async def wake_all(self) -> None:
        """Jobs became ready or scheduled: wake the services of all processes."""
        await notify.wake_all(self._driver, self.wake)

    async def wake_workers(self) -> None:
        """A dispatcher of this process made jobs ready: wake the workers of this process and of other processes."""
        await notify.wake_all(self._driver, self.wake_own_workers, notify.DISPATCHED)

    async def wake_dispatchers(self) -> None:
        """Jobs are due soon: wake the dispatchers of this process or, if none runs, those of other processes.

        One dispatcher that knows the time is enough. A process that stops has cancelled its dispatchers.
        """
        if self._dispatchers and not self._is_stopping():
            self.wake_own_dispatchers()
        else:
            await notify.wake_all(self._driver, topic=notify.DUE_SOON)
