"""The calls to enqueue, and the measurement of their rates.

The implementations alternate, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from benchmarks.support.rounds import Rates

T = TypeVar("T")
Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]

TASK_PATH = "tests.shop.tasks.anything"
#: The number of coroutines that enqueue at the same time.
CONCURRENT = 100


def build_calls(jobs: int) -> list[Call]:
    """The arguments of this number of calls of the task: small, and different for each call."""
    return [((number, "hello"), {"x": [1, 2, 3]}) for number in range(jobs)]


def split(items: Sequence[T], size: int = CONCURRENT) -> Iterator[Sequence[T]]:
    """The items in groups of this size."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Implementation(NamedTuple):
    """A function that stores jobs, and one that prepares its argument from the calls, which is not measured."""

    store: Callable[[Any], None]
    prepare: Callable[[Sequence[Call]], Any] = list


class AsyncImplementation(NamedTuple):
    """The same with an async function."""

    store: Callable[[Any], Awaitable[None]]
    prepare: Callable[[Sequence[Call]], Any] = list


def measure_rates(implementations: Mapping[str, Implementation], calls: Sequence[Call], rounds: int) -> Rates:
    """Store the calls with each implementation in each round. The first round warms the caches and does not count."""
    rates: Rates = {name: [] for name in implementations}
    for _ in range(rounds + 1):
        for name, implementation in implementations.items():
            argument = implementation.prepare(calls)
            gc.collect()
            started = time.perf_counter()
            implementation.store(argument)
            rates[name].append(len(calls) / (time.perf_counter() - started))
    return _drop_first_round(rates)


async def ameasure_rates(
    implementations: Mapping[str, AsyncImplementation], calls: Sequence[Call], rounds: int
) -> Rates:
    """The same with async implementations."""
    rates: Rates = {name: [] for name in implementations}
    for _ in range(rounds + 1):
        for name, implementation in implementations.items():
            argument = implementation.prepare(calls)
            gc.collect()
            started = time.perf_counter()
            await implementation.store(argument)
            rates[name].append(len(calls) / (time.perf_counter() - started))
    return _drop_first_round(rates)


def _drop_first_round(rates: Rates) -> Rates:
    return {name: of_implementation[1:] for name, of_implementation in rates.items()}
