"""Lease: until when this process may act on its claims.

Maintenance of another process prunes it `process_alive_threshold` after its last heartbeat. The lease ends earlier, by
this process's own monotonic clock and counted from when the heartbeat was *sent*: so the process never works on a claim
that maintenance may have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.timing import Clock


class Lease:
    """Renewed by every heartbeat that succeeds."""

    def __init__(self, *, alive_seconds: float, clock: Clock) -> None:
        self._clock = clock
        #: 10 % less than the threshold, a margin for network latency and clock drift.
        self.duration_seconds = alive_seconds * 0.9
        self.expires_at = clock.monotonic() + self.duration_seconds

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic() < self.expires_at

    @property
    def seconds_since_heartbeat(self) -> float:
        return self._clock.monotonic() - (self.expires_at - self.duration_seconds)

    def renew(self, sent_at: float) -> None:
        """Extend the lease: a heartbeat that was sent at this time has succeeded."""
        self.expires_at = max(self.expires_at, sent_at + self.duration_seconds)
