"""What NOTIFY costs many connections that enqueue at once while a worker listens."""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.runtime.latency import wait_for_report
from benchmarks.support.connections import ConnectionCounter
from benchmarks.support.processes import WorkerProcess
from benchmarks.support.rounds import check_run, ratio
from benchmarks.support.systems import SteadyQueue
from benchmarks.tasks import async_noop

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context, Rates

#: Each process has as many connections as an event loop opens, and enough coroutines to use all of them.
PROCESSES, CONNECTIONS, COROUTINES = 4, 4, 16
TASKS = 8_000
TARGET_RATIO = 0.85
ON, OFF = "notifications on", "notifications off"


def measure(context: Context) -> None:
    jobs_per_process = context.reduce(TASKS) // PROCESSES
    figures = context.figures
    heading = f"{PROCESSES * CONNECTIONS} connections of {PROCESSES} processes enqueue at once, one worker listens"
    figures.start_section("notifications", heading)
    rates: Rates = {ON: [], OFF: []}
    with ConnectionCounter(context.postgres) as connections:
        for _ in range(context.rounds):
            for label, of_variant in rates.items():
                of_variant.append(_measure_rate(label, jobs_per_process, context))
    for label, of_variant in rates.items():
        figures.add(f"enqueued jobs, {label}", median(of_variant))
    note = f"{connections.runtime} connections, 4 of them the worker's"
    figures.add(f"{ON} / {OFF}", ratio(rates, ON, OFF), "%", target=TARGET_RATIO, note=note)


def _measure_rate(label: str, jobs_per_process: int, context: Context) -> float:
    notify = label == ON
    system = SteadyQueue(f"Steady Queue, {label}", 0, "postgres", async_noop)
    system.extra_options = {"notify": notify}
    total = PROCESSES * jobs_per_process
    with ExitStack() as stack:
        worker = stack.enter_context(system.start())
        worker.receive("ready")
        worker.send("go")
        options = {
            "role": "enqueue_concurrently",
            "alias": "postgres",
            "notify": notify,
            "jobs": jobs_per_process,
            "coroutines": COROUTINES,
        }
        # Each process enqueues one more job, to open its connections before the clock starts.
        enqueuers = [
            stack.enter_context(
                WorkerProcess(
                    "benchmarks.support.steady_queue_worker",
                    {**options, "first": index * jobs_per_process, "warm_up": total + index},
                )
            )
            for index in range(PROCESSES)
        ]
        for enqueuer in enqueuers:
            enqueuer.receive("ready")
        for enqueuer in enqueuers:
            enqueuer.send("go")
        started, ended = zip(*(enqueuer.receive("enqueued") for enqueuer in enqueuers), strict=True)
        system.jobs = total + PROCESSES
        report = wait_for_report(worker, system)
    check_run(system, report, context.figures)
    seconds: float = (max(ended) - min(started)) / 1e9
    return total / seconds
