"""Which queues a worker takes from, in which order.

The names behind `prefix*` are asked for at most once a second while claims find jobs (every few seconds, if there are
so many that asking takes long), and instead of a claim after one that found none. So are those behind `*` while a queue
is paused: queues are then served in turn, and priorities count inside each. While none is paused, `*` needs no names.

Whose turn it is among the queues of a worker: in the order that was asked for, or each in its turn.

Both name a bounded number of queues for one claim, whatever number there is: a queue that has become empty costs a
claim as much as one that has jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from steady_queue.store.operations.queues import find_waiting_queues

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, Lane

    Queues = dict[Lane, list[str]] | None
    from collections.abc import Callable, Container

#: How many queues are asked in one claim.
MOST = 32


class RoundRobin:
    """Every queue has its turn to be the first, however much the others have."""

    def __init__(self) -> None:
        self._names: dict[int, deque[str]] = {}
        self._served: dict[int, str] = {}

    def learn(self, names: Mapping[int, Sequence[str]]) -> None:
        """These queues have jobs, sorted by name, for each lane: go on where the turn was."""
        every = sorted(set().union(*names.values()))
        for lane, its in names.items():
            # A few may be asked for any lane: one that a queue had no jobs for yet is then not overlooked.
            known = every if len(every) <= MOST else its
            at = bisect_right(known, self._served.get(lane, ""))
            self._names[lane] = deque([*known[at:], *known[:at]])

    def next(self, lane: int) -> list[str]:
        return list(islice(self._names.get(lane, ()), MOST))

    def took(self, lane: int, asked: Sequence[str], found: Container[str], *, filled: bool) -> bool:
        """Note where a claim found jobs, and whether it got as many as it wanted; True when other queues are left."""
        if not asked:
            return False
        names = self._names[lane]
        if filled:
            served = max((at for at, name in enumerate(asked) if name in found), default=0) + 1
            names.rotate(-served)
            self._served[lane] = asked[served - 1]
            return False
        self._served[lane] = asked[-1]
        if len(names) <= len(asked):
            return False  # all were asked, and may be asked again
        for _ in asked:
            names.popleft()
        return True


class InListedOrder:
    """The first come first, whenever they have something."""

    def __init__(self, expand: Callable[[Sequence[str]], list[str]], *, most: int | None) -> None:
        self._expand = expand
        self._most = most
        self._at: dict[int, int] = {}
        self._names: dict[int, list[str]] = {}
        self._given = expand([])

    def learn(self, names: Mapping[int, Sequence[str]]) -> None:
        self._names = {lane: self._expand(its) for lane, its in names.items()}
        self._at = {}

    def next(self, lane: int) -> list[str]:
        names, at = self._names.get(lane, self._given), self._at.get(lane, 0)
        return names[at : None if self._most is None else at + self._most]

    def took(self, lane: int, asked: Sequence[str], found: Container[str], *, filled: bool) -> bool:
        at = self._at.get(lane, 0) + len(asked)
        is_left = not filled and at < len(self._names.get(lane, self._given))
        self._at[lane] = at if is_left else 0
        return is_left


#: How long names are taken as known, in seconds at least and at most, and in multiples of the time that it took to
#: learn them.
NAMES_LAST, NAMES_LAST_AT_MOST, NAMES_ARE_WORTH = 1.0, 5.0, 20


class QueuePlan:
    """Patterns in order: a name, a `prefix*`, or `*` for everything. A star elsewhere means nothing and is ignored."""

    def __init__(self, patterns: Sequence[str], *, driver: AsyncDriver, clock: Clock) -> None:
        self.patterns = [pattern.strip() for pattern in patterns]
        self.takes_all = "*" in self.patterns
        has_prefixes = any(pattern.endswith("*") for pattern in self.patterns)
        in_order = InListedOrder(partial(expand, self.patterns), most=MOST if has_prefixes else None)
        self._line: RoundRobin | InListedOrder = RoundRobin() if self.takes_all else in_order
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
        found = await self._driver.run(find_waiting_queues(self._driver.sql))
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
