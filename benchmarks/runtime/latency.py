"""The time from the commit of a job in another process until an idle worker starts its task."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg

from benchmarks.support.known_peers import find_peer
from benchmarks.support.processes import BenchmarkError, WorkerProcess
from benchmarks.support.report import STEADY_QUEUE
from benchmarks.support.rounds import check_run, percentile
from benchmarks.support.systems import Peer, SteadyQueue
from benchmarks.tasks import async_noop

if TYPE_CHECKING:
    from benchmarks.support.rounds import Context
    from benchmarks.support.systems import System
    from tests.support.servers import Postgres

TASKS = 200
TASK_INTERVAL_SECONDS = 0.05
#: The time in which a started worker becomes idle.
SETTLE_SECONDS = 2.0
LAST_TASK_TIMEOUT_SECONDS = 30.0
#: The tasks of all rounds are pooled, because percentiles need many tasks; each round takes its time.
MAX_ROUNDS = 3
TARGET_P99_MILLISECONDS = 5.0


def measure(context: Context) -> None:
    tasks = context.reduce(TASKS)
    milliseconds = TASK_INTERVAL_SECONDS * 1000
    heading = f"From the commit of a job to the start of its task, idle worker, one task every {milliseconds:.0f} ms"
    context.figures.start_section("latency", heading)
    names = [STEADY_QUEUE, *(name for name in ("oban",) if find_peer(name, context))]
    delays: dict[str, list[float]] = {}
    commits: list[float] = []
    for _ in range(min(context.rounds, MAX_ROUNDS)):
        commits += asyncio.run(_measure_commits(context.postgres, tasks))
        for name in names:
            system = SteadyQueue(name, 0, "postgres", async_noop) if name == STEADY_QUEUE else find_peer(name, context)
            assert system is not None
            delays.setdefault(system.label, []).extend(_measure_delays(system, tasks, context))
    _add_figures(context, delays, commits)


def _add_figures(context: Context, delays: dict[str, list[float]], commits: list[float]) -> None:
    figures = context.figures
    medians = {label: percentile(of_system, 0.5) for label, of_system in delays.items()}
    for label, of_system in delays.items():
        others = [value for other, value in medians.items() if other != STEADY_QUEUE]
        has_target = label == STEADY_QUEUE
        median_target = min(others) if has_target and others else None
        tail_target = TARGET_P99_MILLISECONDS if has_target else None
        figures.add(f"{label}, p50", medians[label], "ms", target=median_target, at_most=True)
        figures.add(f"{label}, p99", percentile(of_system, 0.99), "ms", target=tail_target, at_most=True)
    # The start of a task needs one such commit, that of the claim.
    for share in (0.5, 0.99):
        figures.add(f"a bare durable commit, p{share * 100:.0f}", percentile(commits, share), "ms")


def _measure_delays(system: System, tasks: int, context: Context) -> list[float]:
    """The milliseconds from the commit of each job to the start of its task."""
    system.jobs = 0
    if isinstance(system, SteadyQueue | Peer):
        system.extra_options |= {"starts": True}
    with system.start() as worker:
        worker.receive("ready")
        worker.send("go")
        with _start_enqueuer(system, tasks) as enqueuer:
            enqueuer.receive("ready")
            time.sleep(SETTLE_SECONDS)
            enqueuer.send("go")
            committed = dict(enqueuer.receive("enqueued"))
            system.jobs = tasks
            report = wait_for_report(worker, system)
    check_run(system, report, context.figures)
    return [(at - committed[number]) / 1e6 for number, at in report["starts"]]


async def _measure_commits(server: Postgres, count: int) -> list[float]:
    """The milliseconds of the smallest possible insert, with the same interval as the tasks."""
    account = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    connection = await asyncpg.connect(**account, database="postgres")
    durations: list[float] = []
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS smallest (number int)")
        insert = await connection.prepare("INSERT INTO smallest VALUES (1)")
        for _ in range(count):
            await asyncio.sleep(TASK_INTERVAL_SECONDS)
            started = time.monotonic_ns()
            await insert.fetch()
            durations.append((time.monotonic_ns() - started) / 1e6)
    finally:
        await connection.close()
    return durations


def wait_for_report(worker: WorkerProcess, system: System) -> dict[str, Any]:
    """Wait until the worker has finished all jobs, and return its report."""
    deadline = time.monotonic() + LAST_TASK_TIMEOUT_SECONDS
    while True:
        report = worker.request_report()
        if report["runs"] >= system.jobs and system.is_finished():
            return report
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{system.label} has started only {report['runs']} of {system.jobs} tasks")
        time.sleep(TASK_INTERVAL_SECONDS)


def _start_enqueuer(system: System, tasks: int) -> WorkerProcess:
    options = {"role": "enqueue", "jobs": tasks, "interval_seconds": TASK_INTERVAL_SECONDS}
    if isinstance(system, Peer):
        return system.start_process(**options, stored_jobs=0, prepared=True)
    return WorkerProcess("benchmarks.support.steady_queue_worker", {**options, "alias": "postgres"})
