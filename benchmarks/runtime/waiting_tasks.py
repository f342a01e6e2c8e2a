"""Ten thousand sleeping tasks at once in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.support.connections import ConnectionCounter
from benchmarks.support.rounds import percentile, run_once
from benchmarks.support.systems import SteadyQueue
from benchmarks.tasks import SLEEP_SECONDS, async_sleep

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context

TASKS = 10_000
TARGET_SECONDS, TARGET_CONNECTIONS, TARGET_LAG_MILLISECONDS, TARGET_MEGABYTES = 8.0, 4, 50.0, 400
#: The tasks sleep for seconds, so that the database need not be checked every few milliseconds.
CHECK_SECONDS = 0.02


def measure(context: Context) -> None:
    tasks = context.reduce(TASKS)
    figures = context.figures
    figures.start_section("waiting", f"{tasks:,} tasks of asyncio.sleep({SLEEP_SECONDS:.0f}) in one process")
    system = SteadyQueue("Steady Queue", tasks, "postgres", async_sleep, coroutines=tasks)
    system.extra_options = {"lag": True}
    with ConnectionCounter(context.postgres) as connections:
        run = run_once(system, figures, check_seconds=CHECK_SECONDS)
    figures.add("from the start until all are finished", run.seconds_since_go, "s", target=TARGET_SECONDS, at_most=True)
    figures.add("database connections", connections.runtime, "", target=TARGET_CONNECTIONS, at_most=True)
    lags = run.report["lags"]
    lag = percentile(lags, 0.99) * 1000
    note = f"longest {max(lags) * 1000:.0f} ms"
    figures.add("event loop lag, p99", lag, "ms", target=TARGET_LAG_MILLISECONDS, at_most=True, note=note)
    figures.add(
        "maximum of the resident memory", run.report["memory"] / 1e6, "MB", target=TARGET_MEGABYTES, at_most=True
    )
