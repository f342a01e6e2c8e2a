"""How many no-op tasks per second one worker process runs, compared with the bare driver and with other queues."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from benchmarks.support.known_peers import WITHOUT_TARGET, find_peer, find_pgqueuer
from benchmarks.support.processes import BenchmarkError
from benchmarks.support.rounds import alternate, ratio
from benchmarks.support.servers import version
from benchmarks.support.systems import COROUTINES, BareDriver, SteadyQueue
from benchmarks.tasks import async_noop, sync_noop

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context, Rates, Run

THREADS = 8
#: Ratios of two rates.
TARGET_BARE, TARGET_PGQUEUER, TARGET_SYNC, TARGET_BARE_OTHERS = 0.5, 1.0, 0.4, 0.4
ASYNC = f"Steady Queue, async, {COROUTINES} coroutines"
SYNC = f"Steady Queue, sync, {THREADS} threads"
BARE = "bare driver, batches of 100"


def measure_postgres(context: Context) -> None:
    """Measure all systems that have a target on PostgreSQL."""
    jobs = context.reduce(20_000)
    figures = context.figures
    figures.start_section("throughput", f"No-op tasks in one process, {version('postgres')}, {jobs:,} tasks")
    peers = find_pgqueuer(context, jobs)
    systems = [
        SteadyQueue(ASYNC, jobs, "postgres", async_noop),
        BareDriver(BARE, jobs, "postgres", async_noop),
        *peers,
        SteadyQueue(SYNC, jobs // 2, "postgres", sync_noop, threads=THREADS, coroutines=1),
    ]
    rates, runs = alternate(systems, figures, context.rounds)
    add_rates(context, rates, runs)
    figures.add("Steady Queue, async / bare driver", ratio(rates, ASYNC, BARE), "%", target=TARGET_BARE)
    if peers:
        fastest = max((peer.label for peer in peers), key=lambda label: median(rates[label]))
        figures.add(f"Steady Queue / {fastest}", ratio(rates, ASYNC, fastest), "%", target=TARGET_PGQUEUER)
    figures.add("Steady Queue, sync / async", ratio(rates, SYNC, ASYNC), "%", target=TARGET_SYNC)


def measure_other_databases(context: Context) -> None:
    """Measure MariaDB and SQLite."""
    for alias, jobs in (("mariadb", context.reduce(5_000)), ("sqlite", context.reduce(10_000))):
        context.figures.start_section("databases", f"No-op tasks in one process, {version(alias)}, {jobs:,} tasks")
        systems = [SteadyQueue(ASYNC, jobs, alias, async_noop), BareDriver(BARE, jobs, alias, async_noop)]
        rates, runs = alternate(systems, context.figures, context.rounds)
        add_rates(context, rates, runs)
        what = f"Steady Queue, async / bare driver on {alias}"
        context.figures.add(what, ratio(rates, ASYNC, BARE), "%", target=TARGET_BARE_OTHERS)


def measure_peers(context: Context) -> None:
    """Measure the other queues, which have no target; the slow ones run fewer tasks."""
    context.figures.start_section("peers", f"Other queues, no-op tasks in one process, {version('postgres')}")
    for name in WITHOUT_TARGET:
        if peer := find_peer(name, context):
            try:
                rates, runs = alternate([peer], context.figures, 1)
            except BenchmarkError as error:
                # The remaining queues are measured nevertheless.
                context.figures.add_problems([str(error)])
            else:
                add_rates(context, rates, runs)


def add_rates(context: Context, rates: Rates, runs: dict[str, list[Run]]) -> None:
    """Add the rate of each system, and the CPU time that it used for each task."""
    for label, of_system in rates.items():
        notes = [f"{min(of_system):,.0f} to {max(of_system):,.0f}"] if len(of_system) > 1 else []
        if known := [run.report["cpu"] / run.jobs for run in runs[label] if run.report["cpu"] is not None]:
            notes.append(f"{median(known) * 1e6:,.0f} µs of CPU per task")
        context.figures.add(label, median(of_system), note=", ".join(notes), rounds=of_system)
