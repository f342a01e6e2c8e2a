"""Polling: how long a service sleeps between two polls, and how long ago a process has polled.

A notification only ends the sleep earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Pauses after a wake-up, and after a poll that found jobs: a job whose commit comes late is found by polling again.
AFTER_WORK_SECONDS = (0.01, 0.05, 0.25)
#: The pause between polls while the listener receives notifications.
LISTENING_SECONDS = 2.0
#: The first wake-ups of a series are answered at once; those after them once every so many seconds, so that one claim
#: takes the jobs of several.
BURST, GAP_SECONDS = 10, 0.01


def longest_pause(interval_seconds: float, *, is_listening: bool) -> float:
    """Return the longest pause of a service with this polling interval."""
    return max(interval_seconds, LISTENING_SECONDS) if is_listening else interval_seconds


class PollingInterval:
    """Short pauses after work, then longer ones, up to the polling interval, or to two seconds with a listener."""

    def __init__(self, interval_seconds: float, is_listening: Callable[[], bool]) -> None:
        self._interval_seconds = interval_seconds
        self._is_listening = is_listening
        self._step = 0
        self._credit = float(BURST)
        self._counted_at = 0.0

    def next_pause(self, *, found: bool) -> float:
        """Return how long to sleep now, in seconds; `found` if the last poll found jobs."""
        if found:
            self._step = 0
        longest = longest_pause(self._interval_seconds, is_listening=self._is_listening())
        if self._step < len(AFTER_WORK_SECONDS):
            self._step += 1
            return min(longest, AFTER_WORK_SECONDS[self._step - 1])
        return longest

    def count_wake_up(self, now: float) -> float:
        """The worker was woken: shorten its next pauses. Returns how long to wait for more of many wake-ups."""
        self._step = 0
        self._credit = max(-1.0, min(BURST, self._credit + (now - self._counted_at) / GAP_SECONDS) - 1)
        self._counted_at = now
        return max(0.0, -self._credit * GAP_SECONDS)


class Polls(Protocol):
    """A service that polls."""

    @property
    def polled_ago(self) -> float | None:
        """Seconds since its last successful poll; None before the first."""


class LastPoll:
    """How long ago a process has polled; its heartbeat writes that into its row, where health checks read it."""

    def __init__(
        self, workers: Sequence[Polls], other_services: Sequence[Polls], *, is_stopping: Callable[[], bool]
    ) -> None:
        self._services = workers or other_services
        self._is_stopping = is_stopping

    def seconds_ago(self) -> float | None:
        """Return the age of the oldest last poll of its workers; without workers, of its other services."""
        if self._is_stopping():
            return 0.0  # it polls no more, however long the tasks that run may take
        ages = [service.polled_ago for service in self._services]
        return None if None in ages else max(filter(None, ages), default=0.0)
