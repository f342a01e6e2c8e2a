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
        self.duration_seconds = alive_seconds * 0.9
        self.expires_at = clock.monotonic() + self.duration_seconds

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic() < self.expires_at

    @property
    def seconds_since_heartbeat(self) -> float:
        return self._clock.monotonic() - (self.expires_at - self.duration_seconds)

    def renew(self, sent: float) -> None:
        """A heartbeat sent at this moment has been answered."""
        self.expires_at = max(self.expires_at, sent + self.duration_seconds)
