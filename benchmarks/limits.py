"""What concurrency limits cost: in a bulk, and when many tasks wait behind one key: `python -m benchmarks.limits`.

The sides take turns, and the median of the rounds counts. The status is 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import steady_queue
from benchmarks.figures import Figures
from benchmarks.servers import DATABASES, databases, version
from tests.support.servers import ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.drivers.pool import AsyncDriver

#: A bulk of limited tasks: how many, over how many keys, and the share of the unlimited rate that is asked for.
JOBS, KEYS, BULK_BAR = 10_000, 100, 0.2
#: Tasks behind one key: few and many, and how much dearer the release of a slot may be then.
FEW, MANY, RELEASE_BAR = 100, 100_000, 2.0
#: Releases in one round; fewer than `FEW`, so that there is always somebody who waits.
RELEASES = 60
ROUNDS = 5


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """Measure everything on a database that is ready; `quick` proves only that it can be measured."""
    bulks(alias, figures, jobs=1_000 if quick else JOBS, rounds=1 if quick else ROUNDS)
    releases(alias, figures, many=2_000 if quick else MANY)


# -- a bulk -----------------------------------------------------------------------------------------------------------


def bulks(alias: str, figures: Figures, *, jobs: int, rounds: int) -> None:
    """The same bulk without limits and with them, in turn."""
    from tests.shop.tasks import anything, charge

    rates: dict[str, list[float]] = {"unlimited": [], "limited": []}
    for number in range(rounds + 1):
        for name, task in (("unlimited", anything), ("limited", charge)):
            rate = _bulk(alias, task, jobs)
            if number:  # the first round is for the caches
                rates[name].append(rate)
    for name, taken in rates.items():
        figures.add(f"enqueue_all of {jobs:,} tasks, {name}", median(taken), rounds=taken)
    ratios = [ours / plain for ours, plain in zip(rates["limited"], rates["unlimited"], strict=True)]
    bar = {"bar": BULK_BAR} if alias == "postgres" else {}
    figures.add(f"limited over {KEYS} keys beside unlimited", median(ratios), "x", rounds=ratios, **bar)


def _bulk(alias: str, task: Any, jobs: int) -> float:
    from steady_queue import enqueue_all

    _empty(alias)
    calls = [task.bind(number % KEYS, amount=number) for number in range(jobs)]
    begun = time.perf_counter()
    enqueue_all(calls)
    return jobs / (time.perf_counter() - begun)


# -- many behind one key ----------------------------------------------------------------------------------------------


def releases(alias: str, figures: Figures, *, many: int) -> None:
    """What it takes to settle the holder of a slot, which makes the next ready, with few and with many behind it."""
    taken: dict[int, list[float]] = {FEW: [], many: []}
    for _ in range(2):
        for blocked, seconds in taken.items():
            seconds += _releases(alias, blocked)
    for blocked, seconds in taken.items():
        figures.add(f"release with {blocked:,} blocked", median(seconds) * 1000, "ms", rounds=seconds)
    ratio = median(taken[many]) / median(taken[FEW])
    figures.add("the second beside the first", ratio, "x", bar=RELEASE_BAR, at_most=True)
    _empty(alias)


def _releases(alias: str, blocked: int) -> list[float]:
    """Seconds of each release."""
    from steady_queue import enqueue_all
    from steady_queue.db.aliases import open_async
    from tests.shop.tasks import charge

    _empty(alias)
    for at in range(0, blocked + 1, JOBS):
        enqueue_all(charge.bind("one") for _ in range(min(JOBS, blocked + 1 - at)))

    async def main() -> list[float]:
        driver = open_async(alias, size=1)
        try:
            return await _settled(driver)
        finally:
            await driver.close()

    return asyncio.run(main())


async def _settled(driver: AsyncDriver) -> list[float]:
    from steady_queue.store.job import Lane
    from steady_queue.store.operations.claim import Wanted, claim_from_all
    from steady_queue.store.operations.processes import NewProcess, register
    from steady_queue.store.operations.settle import settle
    from steady_queue.store.outcome import Finished

    process = NewProcess(id=uuid4(), kind="worker", name="worker", pid=1, hostname="here")
    await driver.run(register(driver.sql, process))
    taken = []
    for number in range(RELEASES):
        ((claimed,), _) = await driver.run(claim_from_all(driver.sql, Wanted(process.id, Lane.THREAD, 1)))
        begun = time.perf_counter()
        settlement = await driver.run(settle(driver.sql, [Finished(claimed)], worker_id="worker"))
        if number >= RELEASES // 6:  # the first few prepare statements
            taken.append(time.perf_counter() - begun)
        assert settlement.promoted == 1
    return taken


def _empty(alias: str) -> None:
    from tests.support.databases.tables import EXECUTIONS, query

    word = "DELETE FROM" if alias == "sqlite" else "TRUNCATE"  # rows that are only marked would weigh on later rounds
    for table in (*EXECUTIONS, "semaphore", "process", "job"):
        query(alias, f"{word} steady_queue_{table}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure on some databases and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description="What concurrency limits cost.")
    parser.add_argument("--quick", action="store_true", help="little of everything: the figures mean nothing")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=["postgres"])
    options = parser.parse_args(arguments)
    figures = Figures()
    try:
        with databases(options.databases):
            for alias in options.databases:
                steady_queue.database = alias
                figures.heading(alias, version(alias))
                measure(alias, figures, quick=options.quick)
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 1 if figures.missed or figures.problems else 0


if __name__ == "__main__":
    sys.exit(main())
