"""Time, in its two local kinds. What is due and who is dead is decided by the database's own clock, never here.

A bell that wakes a sleeping service.

CooperativeYield: long computing in slices, between which others go on.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where services take the time from."""

    def monotonic(self) -> float:
        """Seconds for local waits and deadlines."""
        ...

    def now(self) -> datetime:
        """Wall time in UTC, for people."""
        ...


class SystemClock:
    """The clock of the machine."""

    def monotonic(self) -> float:
        return _seconds()

    def now(self) -> datetime:
        return datetime.now(UTC)


def _since_boot() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


#: Where there is such a clock, one that goes on while the machine is suspended: other machines do not wait for it.
_seconds = _since_boot if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class WakeEvent:
    """Rung any number of times, it wakes its one listener once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Sleep until it rings, at most so long; True when it rang."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


#: After so much computing others may go on, in seconds.
SLICE_SECONDS = 0.005


class CooperativeYield:
    """Taken often; it costs nothing until a slice is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken = clock.monotonic()

    async def take(self) -> None:
        """Let others go on, if they have waited for a while."""
        if self._clock.monotonic() - self._taken > SLICE_SECONDS:
            await asyncio.sleep(0)
            self._taken = self._clock.monotonic()
