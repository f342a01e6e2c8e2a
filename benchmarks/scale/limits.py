"""What concurrency limits cost: in a bulk enqueue, and when many tasks wait for a slot of the same key.

The variants alternate, and the median of the rounds counts.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.support.servers import version

if TYPE_CHECKING:
    from benchmarks.support.report import Figures
    from steady_queue.store.drivers.pool import AsyncDriver

#: The jobs of a bulk enqueue, the number of their keys, and the target: the share of the rate without limits.
JOBS, KEYS, TARGET_BULK_RATIO = 10_000, 100, 0.2
#: The blocked tasks of one key, and the target: how much longer a release may take with many of them than with few.
FEW_BLOCKED, MANY_BLOCKED, TARGET_RELEASE_RATIO = 100, 100_000, 2.0
#: The releases of one round; fewer than `FEW_BLOCKED`, so that a task is blocked at each release.
RELEASES = 60
#: The first releases of a round prepare statements and do not count.
WARM_UP_RELEASES = RELEASES // 6
ROUNDS = 5


def measure(alias: str, figures: Figures, *, quick: bool = False) -> None:
    """Measure on a migrated database; the figures of a quick run mean little."""
    figures.start_section("limits", f"Concurrency limits, {version(alias)}")
    measure_bulk_enqueues(alias, figures, jobs=1_000 if quick else JOBS, rounds=1 if quick else ROUNDS)
    measure_releases(alias, figures, many=2_000 if quick else MANY_BLOCKED)


# -- bulk enqu--------------------------------------------------------------------------------------------------------


def measure_bulk_enqueues(alias: str, figures: Figures, *, jobs: int, rounds: int) -> None:
    """Enqueue the same bulk without limits and with limits."""
    from tests.shop.tasks import anything, charge

    rates: dict[str, list[float]] = {"unlimited": [], "limited": []}
    for number in range(rounds + 1):
        for name, task in (("unlimited", anything), ("limited", charge)):
            rate = _measure_bulk(alias, task, jobs)
            if number:  # the first round warms the caches
                rates[name].append(rate)
    for name, of_variant in rates.items():
        figures.add(f"enqueue_all of {jobs:,} tasks, {name}", median(of_variant), rounds=of_variant)
    ratios = [limited / unlimited for limited, unlimited in zip(rates["limited"], rates["unlimited"], strict=True)]
    target = {"target": TARGET_BULK_RATIO} if alias == "postgres" else {}
    figures.add(f"limited with {KEYS} keys / unlimited", median(ratios), "times", rounds=ratios, **target)


def _measure_bulk(alias: str, task: Any, jobs: int) -> float:
    from steady_queue import enqueue_all

    _empty(alias)
    calls = [task.bind(number % KEYS, amount=number) for number in range(jobs)]
    started = time.perf_counter()
    enqueue_all(calls)
    return jobs / (time.perf_counter() - started)


# -- blocked tasks ----------------------------------------------------------------------------------------------------


def measure_releases(alias: str, figures: Figures, *, many: int) -> None:
    """Settle a task that holds a slot, which promotes the next task, with few and with many blocked tasks."""
    durations: dict[int, list[float]] = {FEW_BLOCKED: [], many: []}
    for _ in range(2):
        for blocked, seconds in durations.items():
            seconds += _measure_releases(alias, blocked)
    for blocked, seconds in durations.items():
        figures.add(f"release with {blocked:,} blocked tasks", median(seconds) * 1000, "ms", rounds=seconds)
    ratio = median(durations[many]) / median(durations[FEW_BLOCKED])
    figures.add(f"{many:,} / {FEW_BLOCKED:,} blocked tasks", ratio, "times", target=TARGET_RELEASE_RATIO, at_most=True)
    _empty(alias)


def _measure_releases(alias: str, blocked: int) -> list[float]:
    """The seconds of each release."""
    from steady_queue import enqueue_all
    from steady_queue.db.aliases import open_async
    from tests.shop.tasks import charge

    _empty(alias)
    for stored in range(0, blocked + 1, JOBS):
        enqueue_all(charge.bind("one") for _ in range(min(JOBS, blocked + 1 - stored)))

    async def main() -> list[float]:
        driver = open_async(alias, size=1)
        try:
            return await _time_releases(driver)
        finally:
            await driver.close()

    return asyncio.run(main())


async def _time_releases(driver: AsyncDriver) -> list[float]:
    from steady_queue.store.job import Lane
    from steady_queue.store.operations.claim import ClaimRequest, claim_from_all
    from steady_queue.store.operations.processes.registration import NewProcess, register
    from steady_queue.store.operations.settle import settle
    from steady_queue.store.outcome import Finished

    process = NewProcess(id=uuid4(), kind="worker", name="worker", pid=1, hostname="here")
    await driver.run(register(driver.sql, process))
    durations = []
    for number in range(RELEASES):
        ((claimed,), _) = await driver.run(claim_from_all(driver.sql, ClaimRequest(process.id, Lane.THREAD, 1)))
        started = time.perf_counter()
        settlement = await driver.run(settle(driver.sql, [Finished(claimed)], process_name="worker"))
        if number >= WARM_UP_RELEASES:
            durations.append(time.perf_counter() - started)
        assert settlement.promoted == 1
    return durations


def _empty(alias: str) -> None:
    from tests.support.databases.tables import EXECUTIONS, query

    # TRUNCATE, because rows that are only marked as deleted would slow later rounds.
    statement = "DELETE FROM" if alias == "sqlite" else "TRUNCATE"
    for table in (*EXECUTIONS, "semaphore", "process", "job"):
        query(alias, f"{statement} steady_queue_{table}")
