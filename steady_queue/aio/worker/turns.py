"""Whose turn it is among the queues of a worker: in the order that was asked for, or each in its turn.

Both name a bounded number of queues for one claim, whatever number there is: a queue that has become empty costs a
claim as much as one that has jobs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

#: How many queues are asked in one claim.
MOST = 32


class InTurn:
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


class InOrder:
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
