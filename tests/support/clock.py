"""A clock that a test sets."""

from __future__ import annotations

from datetime import UTC, datetime


class ManualClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> datetime:
        return datetime(2024, 1, 1, tzinfo=UTC)
