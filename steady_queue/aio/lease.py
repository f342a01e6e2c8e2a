"""Lease: until when this process may believe that its claims are still its own.

Others take a process for dead `process_alive_threshold` after its last heartbeat. It stops believing in itself earlier,
by its own monotonic clock and from when the heartbeat was *sent*: so it never works on what another may have taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.timing import Clock


class Lease:
    """Renewed by every good heartbeat."""

    def __init__(self, *, alive_seconds: float, clock: Clock) -> None:
        self._clock = clock
        #: A tenth of the time, for the way of a heartbeat and the difference of two clocks.
        self.lasts = alive_seconds * 0.9
        self.until = clock.monotonic() + self.lasts

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic() < self.until

    @property
    def since_beat(self) -> float:
        return self._clock.monotonic() - (self.until - self.lasts)

    def renew(self, sent: float) -> None:
        """A heartbeat sent at this moment has been answered."""
        self.until = max(self.until, sent + self.lasts)
