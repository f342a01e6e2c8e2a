"""How many no-op tasks one worker process runs, beside the bare driver and beside the fastest peer."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks import peerage
from benchmarks.contenders import COROUTINES, Bare, Ours
from benchmarks.hands import HandError
from benchmarks.race import ratio
from benchmarks.rounds import turns
from benchmarks.servers import version
from benchmarks.tasks import anothing, nothing

if TYPE_CHECKING:
    from benchmarks.race import Rates
    from benchmarks.rounds import Run
    from benchmarks.scene import Scene

THREADS = 8
BARE_BAR, RIVAL_BAR, SYNC_BAR, OTHERS_BAR = 0.5, 1.0, 0.4, 0.4
OURS, SYNC, BARE = f"ours, {COROUTINES} coroutines", f"ours, sync on {THREADS} threads", "bare, batches of 100"


def on_postgres(scene: Scene) -> None:
    """The bars of PostgreSQL."""
    jobs = scene.few(20_000)
    scene.figures.heading("throughput", f"No-op tasks in one process, {version('postgres')}, {jobs:,} tasks")
    rivals = peerage.rivals(scene, jobs)
    contenders = [
        Ours(OURS, jobs, "postgres", anothing),
        Bare(BARE, jobs, "postgres", anothing),
        *rivals,
        Ours(SYNC, jobs // 2, "postgres", nothing, threads=THREADS, coroutines=1),
    ]
    rates, runs = turns(contenders, scene.figures, scene.rounds)
    record(scene, rates, runs)
    figures = scene.figures
    figures.add("ours / bare", ratio(rates, OURS, BARE), "%", bar=BARE_BAR)
    if rivals:
        best = max((rival.label for rival in rivals), key=lambda label: median(rates[label]))
        figures.add(f"ours / {best}", ratio(rates, OURS, best), "%", bar=RIVAL_BAR)
    figures.add("sync / async", ratio(rates, SYNC, OURS), "%", bar=SYNC_BAR)


def elsewhere(scene: Scene) -> None:
    """The bars of the other databases."""
    for alias, jobs in (("mariadb", scene.few(5_000)), ("sqlite", scene.few(10_000))):
        scene.figures.heading("others", f"No-op tasks in one process, {version(alias)}, {jobs:,} tasks")
        contenders = [Ours(OURS, jobs, alias, anothing), Bare(BARE, jobs, alias, anothing)]
        rates, runs = turns(contenders, scene.figures, scene.rounds)
        record(scene, rates, runs)
        scene.figures.add(f"ours / bare on {alias}", ratio(rates, OURS, BARE), "%", bar=OTHERS_BAR)


def peers(scene: Scene) -> None:
    """The other queues, for the record, with fewer tasks where they are slow."""
    scene.figures.heading("peers", f"Peers, no-op tasks in one process, {version('postgres')}")
    for name in peerage.OTHERS:
        if contender := peerage.find(name, scene):
            try:
                rates, runs = turns([contender], scene.figures, 1)
            except HandError as error:
                # It has no bar; the others are measured all the same.
                scene.figures.wrong([str(error)])
            else:
                record(scene, rates, runs)


def record(scene: Scene, rates: Rates, runs: dict[str, list[Run]]) -> None:
    """Add the rate of each contender, and the CPU that its tasks took."""
    for label, its in rates.items():
        notes = [f"{min(its):,.0f} to {max(its):,.0f}"] if len(its) > 1 else []
        if known := [one.report["cpu"] / one.jobs for one in runs[label] if one.report["cpu"] is not None]:
            notes.append(f"{median(known) * 1e6:,.0f} µs of CPU each")
        scene.figures.add(label, median(its), note=", ".join(notes), rounds=its)
