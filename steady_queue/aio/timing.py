"""Time, in its two local kinds. What is due and who is dead is decided by the database's own clock, never here."""

from __future__ import annotations

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
