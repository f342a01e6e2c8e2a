"""Queues: from which queues a worker claims, and in which order.

A claim names its queues, except for a worker of `*` while no queue is paused. The names for `prefix*` are queried at
most once a second while claims find jobs (every few seconds, if there are so many that the query takes long), and
before the next claim after one that found none. So are the names for `*` while a queue is paused or if queues are
excluded: queues then take turns, and priorities count within each queue.

Queues take turns (`RoundRobin`) or are claimed from in the configured order (`InListedOrder`). Both name a bounded
number of queues for one claim, however many there are: an empty queue costs a claim as much as one that has jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from steady_queue.store.operations.actions.queues import find_waiting_queues

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, Lane
    from steady_queue.store.queue_selection import QueueSelection

    #: The names for each lane; None for all queues.
    Queues = dict[Lane, list[str]] | None

#: The largest number of queues that one claim names.
MAX_QUEUES = 32


class RoundRobin:
    """The queues take turns to be the first, however many jobs each has."""

    def __init__(self) -> None:
        self._names: dict[int, deque[str]] = {}
        self._served: dict[int, str] = {}

    def set_names(self, names: Mapping[int, Sequence[str]]) -> None:
        """Set the queues that have jobs, for each lane, sorted by name. The turn continues after the last one."""
        all_names = sorted(set().union(*names.values()))
        for lane, lane_names in names.items():
            # If they are few, all are named for every lane: a queue whose first job in a lane comes now is not missed.
            named = all_names if len(all_names) <= MAX_QUEUES else lane_names
            at = bisect_right(named, self._served.get(lane, ""))
            self._names[lane] = deque([*named[at:], *named[:at]])

    def next(self, lane: int) -> list[str]:
        """Return the queues for the next claim."""
        return list(islice(self._names.get(lane, ()), MAX_QUEUES))

    def record(self, lane: int, named: Sequence[str], found: Container[str], *, is_filled: bool) -> bool:
        """Record in which of the named queues a claim found jobs, and whether it got as many as it wanted.

        Returns whether there are queues that were not named yet.
        """
        if not named:
            return False
        names = self._names[lane]
        if is_filled:
            served = max((at for at, name in enumerate(named) if name in found), default=0) + 1
            names.rotate(-served)
            self._served[lane] = named[served - 1]
            return False
        self._served[lane] = named[-1]
        if len(names) <= len(named):
            return False  # all were named, and may be named again
        for _ in named:
            names.popleft()
        return True


class InListedOrder:
    """A queue comes before those that are listed after it, whenever it has jobs."""

    def __init__(self, expand: Callable[[Sequence[str]], list[str]], *, max_names: int | None) -> None:
        self._expand = expand
        self._max_names = max_names
        self._at: dict[int, int] = {}
        self._names: dict[int, list[str]] = {}
        self._plain_names = expand([])

    def set_names(self, names: Mapping[int, Sequence[str]]) -> None:
        self._names = {lane: self._expand(lane_names) for lane, lane_names in names.items()}
        self._at = {}

    def next(self, lane: int) -> list[str]:
        names, at = self._names.get(lane, self._plain_names), self._at.get(lane, 0)
        return names[at : None if self._max_names is None else at + self._max_names]

    def record(self, lane: int, named: Sequence[str], found: Container[str], *, is_filled: bool) -> bool:
        at = self._at.get(lane, 0) + len(named)
        is_left = not is_filled and at < len(self._names.get(lane, self._plain_names))
        self._at[lane] = at if is_left else 0
        return is_left


#: How long names are used before they are queried again: in seconds at least and at most, and in multiples of the time
#: that the query took.
NAMES_MIN_SECONDS, NAMES_MAX_SECONDS, NAMES_COST_FACTOR = 1.0, 5.0, 20


class QueuePlan:
    """A selection of queues. A pattern with an asterisk that is not its last character is ignored."""

    def __init__(self, selection: QueueSelection, *, driver: AsyncDriver, clock: Clock) -> None:
        self.selection = selection
        self.takes_all = selection.takes_all
        has_prefixes = any(pattern.endswith("*") for pattern in selection.patterns)
        in_order = InListedOrder(selection.expand, max_names=MAX_QUEUES if has_prefixes else None)
        self._order: RoundRobin | InListedOrder = RoundRobin() if self.takes_all else in_order
        #: Whether claims must name queues that the patterns do not.
        self._needs_names = bool(selection.excluded) if self.takes_all else has_prefixes
        self._driver = driver
        self._clock = clock
        self._names_expire_at = 0.0
        self._is_fresh = False

    async def queues(self, lanes: Iterable[Lane]) -> Queues:
        """Return the queues to claim from, for these lanes."""
        self._is_fresh = self._needs_names and self._clock.monotonic() >= self._names_expire_at
        if self._is_fresh:
            await self._query_names()
        if self.takes_all and not self._needs_names:
            return None
        return {lane: self._order.next(lane) for lane in lanes}

    async def _query_names(self) -> None:
        began = self._clock.monotonic()
        found = await self._driver.run(find_waiting_queues(self._driver.sql))
        now = self._clock.monotonic()
        seconds = min(NAMES_MAX_SECONDS, max(NAMES_MIN_SECONDS, NAMES_COST_FACTOR * (now - began)))
        self._names_expire_at = now + seconds
        names: Mapping[int, Sequence[str]] = found.names
        if self.selection.excluded:
            excludes = self.selection.excludes
            names = {lane: [name for name in its if not excludes(name)] for lane, its in found.names.items()}
        self._order.set_names(names)
        if self.takes_all:
            self._needs_names = found.is_paused or bool(self.selection.excluded)

    def require_names(self) -> None:
        """A queue is paused: claim from named queues instead of from all."""
        self._needs_names = True
        self._names_expire_at = 0.0

    def record(self, named: Mapping[Lane, Sequence[str]], claims: Sequence[Claim], free: Mapping[Lane, int]) -> bool:
        """Record what a claim returned; returns whether there are queues that were not named yet."""
        found: dict[int, list[str]] = {lane: [] for lane in named}
        for claim in claims:
            found.setdefault(claim.lane, []).append(claim.queue_name)
        left = [
            self._order.record(lane, names, set(found[lane]), is_filled=len(found[lane]) >= free[lane])
            for lane, names in named.items()
        ]
        if not claims and not any(left):
            self._names_expire_at = 0.0
        return any(left)

    @property
    def may_miss(self) -> bool:
        """Whether the last claim used names of an earlier query: there may be a queue that is not among them."""
        return self._needs_names and not self._is_fresh
