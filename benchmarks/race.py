"""Rounds taken in turn: ours, theirs, ours, theirs. Whatever else the machine does meets all sides alike."""

from __future__ import annotations

import gc
import time
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from benchmarks.calls import Call

#: Jobs per second of each side, round by round.
Rates: TypeAlias = dict[str, list[float]]


class Side(NamedTuple):
    """How one side stores jobs, and what it makes of the calls beforehand, unmeasured."""

    store: Callable[[Any], None]
    prepare: Callable[[Sequence[Call]], Any] = list


class AsyncSide(NamedTuple):
    """The same for async code."""

    store: Callable[[Any], Awaitable[None]]
    prepare: Callable[[Sequence[Call]], Any] = list


def race(sides: Mapping[str, Side], calls: Sequence[Call], rounds: int) -> Rates:
    """Let the sides store the calls in turn, round after round, after one that does not count."""
    rates: Rates = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, side in sides.items():
            given = side.prepare(calls)
            gc.collect()
            begun = time.perf_counter()
            side.store(given)
            rates[name].append(len(calls) / (time.perf_counter() - begun))
    return _without_the_first(rates)


async def arace(sides: Mapping[str, AsyncSide], calls: Sequence[Call], rounds: int) -> Rates:
    """The same for async sides."""
    rates: Rates = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, side in sides.items():
            given = side.prepare(calls)
            gc.collect()
            begun = time.perf_counter()
            await side.store(given)
            rates[name].append(len(calls) / (time.perf_counter() - begun))
    return _without_the_first(rates)


def ratio(rates: Rates, ours: str, theirs: str) -> float:
    """The median of the rounds' own ratios: neighbours in time are more alike than two medians are."""
    return median(one / other for one, other in zip(rates[ours], rates[theirs], strict=True))


def _without_the_first(rates: Rates) -> Rates:
    return {name: taken[1:] for name, taken in rates.items()}
