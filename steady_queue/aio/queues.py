"""Which queues a worker takes from, in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.queues import queue_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.aio.clock import Clock
    from steady_queue.store.drivers.pool import AsyncDriver

#: How long the names behind a `prefix*` are taken as known, in seconds.
NAMES_LAST = 1.0


class QueuePlan:
    """Patterns in order: a name, a `prefix*`, or `*` for everything. A star elsewhere means nothing and is ignored."""

    def __init__(self, patterns: Sequence[str], *, driver: AsyncDriver, clock: Clock) -> None:
        self.patterns = [pattern.strip() for pattern in patterns]
        self.takes_all = "*" in self.patterns
        self._has_prefixes = any(pattern.endswith("*") for pattern in self.patterns)
        self._driver = driver
        self._clock = clock
        self._names: list[str] = []
        self._known_until = 0.0
        self._is_fresh = False

    async def queues(self) -> list[str] | None:
        """The names to claim from, in order; None for all of them."""
        if self.takes_all:
            return None
        self._is_fresh = self._has_prefixes and self._clock.monotonic() >= self._known_until
        if self._is_fresh:
            self._names = await self._driver.run(queue_names(self._driver.sql))
            self._known_until = self._clock.monotonic() + NAMES_LAST
        return expand(self.patterns, self._names)

    def forget(self) -> bool:
        """Look for names anew next time; True when the last answer came from memory, and may have missed a queue."""
        self._known_until = 0.0
        return self._has_prefixes and not self.takes_all and not self._is_fresh


def expand(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that the patterns stand for, each at the place of the first pattern that it fits."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if "*" not in pattern:
            found.setdefault(pattern)
        elif pattern.index("*") == len(pattern) - 1:
            found.update(dict.fromkeys(name for name in names if name.startswith(pattern[:-1]) and name not in found))
    return list(found)
