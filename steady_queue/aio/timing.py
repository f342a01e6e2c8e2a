"""Timing: the clock of the process, an event that wakes a service, and yielding to the event loop.

Which jobs are due and which processes are dead is decided by the database's clock, never by this one.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The clock of the services."""

    def monotonic(self) -> float:
        """Seconds for local waits and deadlines."""
        ...


class SystemClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return _seconds()


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


#: CLOCK_BOOTTIME, where the system has it: it continues while the machine is suspended, as other machines do.
_seconds = _since_boot if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class WakeEvent:
    """Wakes the one service that waits for it, once for any number of calls of `wake`."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Sleep until `wake` is called, at most for so many seconds if given; returns whether it was called."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


#: How long a computation may hold the event loop.
SLICE_SECONDS = 0.005


class CooperativeYield:
    """Splits a long computation into slices, between which the event loop runs other tasks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._yielded_at = clock.monotonic()

    async def yield_if_due(self) -> None:
        """Yield to the event loop if the slice is over. Cheap enough to be called for every item."""
        if self._clock.monotonic() - self._yielded_at > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._yielded_at = self._clock.monotonic()
