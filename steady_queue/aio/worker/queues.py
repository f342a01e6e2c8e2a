"""Which queues a worker takes from, in which order.

The names behind `prefix*` are asked for at most once a second while claims find jobs (every few seconds, if there are
so many that asking takes long), and instead of a claim after one that found none. So are those behind `*` while a queue
is paused: queues are then served in turn, and priorities count inside each. While none is paused, `*` needs no names.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.aio.worker.turns import MOST, InOrder, InTurn
from steady_queue.store.operations.queues import waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, Lane

    #: The names to claim from, in order, for each lane; None for all of them, as if they were one.
    Queues = dict[Lane, list[str]] | None

#: How long names are taken as known, in seconds at least and at most, and in multiples of the time that it took to
#: learn them.
NAMES_LAST, NAMES_LAST_AT_MOST, NAMES_ARE_WORTH = 1.0, 5.0, 20


class QueuePlan:
    """Patterns in order: a name, a `prefix*`, or `*` for everything. A star elsewhere means nothing and is ignored."""

    def __init__(self, patterns: Sequence[str], *, driver: AsyncDriver, clock: Clock) -> None:
        self.patterns = [pattern.strip() for pattern in patterns]
        self.takes_all = "*" in self.patterns
        has_prefixes = any(pattern.endswith("*") for pattern in self.patterns)
        in_order = InOrder(partial(expand, self.patterns), most=MOST if has_prefixes else None)
        self._line: InTurn | InOrder = InTurn() if self.takes_all else in_order
        #: Whether names must be known.
        self._needs_names = has_prefixes and not self.takes_all
        self._driver = driver
        self._clock = clock
        self._known_until = 0.0
        self._is_fresh = False

    async def queues(self, lanes: Iterable[Lane]) -> Queues:
        """What to claim from for these lanes."""
        self._is_fresh = self._needs_names and self._clock.monotonic() >= self._known_until
        if self._is_fresh:
            await self._learn()
        if self.takes_all and not self._needs_names:
            return None
        return {lane: self._line.next(lane) for lane in lanes}

    async def _learn(self) -> None:
        began = self._clock.monotonic()
        found = await self._driver.run(waiting(self._driver.sql))
        now = self._clock.monotonic()
        self._known_until = now + min(NAMES_LAST_AT_MOST, max(NAMES_LAST, NAMES_ARE_WORTH * (now - began)))
        self._line.learn(found.names)
        if self.takes_all:
            self._needs_names = found.is_paused

    def name_them(self) -> None:
        """Something is paused: all queues cannot be asked as if they were one."""
        self._needs_names = True
        self._known_until = 0.0

    def took(self, asked: Mapping[Lane, Sequence[str]], claims: Sequence[Claim], free: Mapping[Lane, int]) -> bool:
        """Note what a claim brought; True when queues are left that were not asked."""
        found: dict[int, list[str]] = {lane: [] for lane in asked}
        for claim in claims:
            found.setdefault(claim.lane, []).append(claim.queue_name)
        left = [
            self._line.took(lane, its, set(found[lane]), filled=len(found[lane]) >= free[lane])
            for lane, its in asked.items()
        ]
        if not claims and not any(left):
            self._known_until = 0.0
        return any(left)

    @property
    def may_miss(self) -> bool:
        """Whether the last names came from memory: there may be a queue that they lack."""
        return self._needs_names and not self._is_fresh


def expand(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that the patterns stand for, each at the place of the first pattern that it fits."""
    found: dict[str, None] = {}
    for pattern in patterns:
        if "*" not in pattern:
            found.setdefault(pattern)
        elif pattern.index("*") == len(pattern) - 1:
            found.update(dict.fromkeys(name for name in names if name.startswith(pattern[:-1]) and name not in found))
    return list(found)
