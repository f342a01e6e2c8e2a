"""Ten thousand tasks that only wait, at once in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.backends import Backends
from benchmarks.contenders import Ours
from benchmarks.latency import percentile
from benchmarks.rounds import run
from benchmarks.tasks import SLEEP, asleep

if TYPE_CHECKING:
    from benchmarks.scene import Scene

TASKS = 10_000
SECONDS_BAR, CONNECTIONS_BAR, LAG_BAR, MEMORY_BAR = 8.0, 4, 50.0, 400
#: They sleep for seconds: no need to look as often as when every millisecond counts.
LOOK_EVERY = 0.02


def section(scene: Scene) -> None:
    tasks = scene.few(TASKS)
    figures = scene.figures
    figures.heading("multitude", f"{tasks:,} tasks of asyncio.sleep({SLEEP:.0f}) in one process")
    contender = Ours("ours", tasks, "postgres", asleep, coroutines=tasks)
    contender.more = {"lag": True}
    with Backends(scene.postgres) as backends:
        shown = run(contender, figures, look_every=LOOK_EVERY)
    figures.add("from the start until all are finished", shown.since_go, "s", bar=SECONDS_BAR, at_most=True)
    figures.add("database connections", backends.runtime, "", bar=CONNECTIONS_BAR, at_most=True)
    lags = shown.report["lags"]
    note = f"longest {max(lags) * 1000:.0f} ms"
    figures.add("event loop lag, p99", percentile(lags, 0.99) * 1000, "ms", bar=LAG_BAR, at_most=True, note=note)
    figures.add("resident memory at most", shown.report["memory"] / 1e6, "MB", bar=MEMORY_BAR, at_most=True)
