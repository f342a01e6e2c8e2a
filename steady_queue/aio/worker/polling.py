"""Polling: how long a worker sleeps between two polls. A notification only wakes it earlier."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: After a notification or a find: what a late commit brings is found by looking again, in seconds.
AFTER_WORK_SECONDS = (0.01, 0.05, 0.25)
#: Between polls while a listener is known to hear, in seconds.
LISTENING_SECONDS = 2.0
#: So many wake-ups are answered at once; when they do not cease, one in so many seconds: what gathers is one claim.
BURST, GAP_SECONDS = 10, 0.01


class PollingInterval:
    """Quick after work, then slower, up to the polling interval, or to two seconds with a listener that hears."""

    def __init__(self, interval: float, hears: Callable[[], bool]) -> None:
        self._interval = interval
        self._hears = hears
        self._step = 0
        self._credit = float(BURST)
        self._counted = 0.0

    def after(self, *, found: bool) -> float:
        """How long to sleep now."""
        if found:
            self._step = 0
        longest = max(self._interval, LISTENING_SECONDS) if self._hears() else self._interval
        if self._step < len(AFTER_WORK_SECONDS):
            self._step += 1
            return min(longest, AFTER_WORK_SECONDS[self._step - 1])
        return longest

    def woken(self, now: float) -> float:
        """The worker was woken: look again quickly, but let wake-ups gather for so long if they come thick and fast."""
        self._step = 0
        self._credit = max(-1.0, min(BURST, self._credit + (now - self._counted) / GAP_SECONDS) - 1)
        self._counted = now
        return max(0.0, -self._credit * GAP_SECONDS)
