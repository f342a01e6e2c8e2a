"""The statements of a process whose tasks report their progress twice a second."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.runtime.idle import address, start_server
from benchmarks.support.processes import ROOT, BenchmarkError, WorkerProcess

if TYPE_CHECKING:
    from benchmarks.runtime.idle import StatementCounter
    from benchmarks.support.rounds import Context
    from tests.support.servers import Postgres

TASKS = 5_000
MEASURE_SECONDS, QUICK_MEASURE_SECONDS = 20.0, 5.0
TARGET_STATEMENTS_PER_SECOND = 20.0
#: How long the tasks may take to start.
START_SECONDS = 60.0
ENQUEUE = """
import django
django.setup()
import steady_queue
steady_queue.database = "postgres"
from benchmarks.tasks import async_progress
steady_queue.enqueue_all([async_progress.bind(number) for number in range({tasks})])
"""


def measure(context: Context) -> None:
    tasks = context.reduce(TASKS)
    seconds = QUICK_MEASURE_SECONDS if context.is_quick else MEASURE_SECONDS
    figures = context.figures
    with start_server() as (server, counter):
        environment = {**os.environ, **address(server)}
        subprocess.run([sys.executable, "-c", ENQUEUE.format(tasks=tasks)], env=environment, cwd=ROOT, check=True)
        with _start_worker(server, tasks) as worker:
            worker.receive("ready")
            worker.send("go")
            _wait_for_reports(counter, tasks)
            cpu, before = worker.request_report()["cpu"], counter.read_calls()
            time.sleep(seconds)
            used, after = worker.request_report()["cpu"] - cpu, counter.read_calls()
    figures.start_section(
        "progress",
        f"{tasks:,} running tasks that report twice a second, during {seconds:.0f} s;"
        f" statements counted by {counter.source}",
    )
    new = {text: calls - before.get(text, 0) for text, calls in after.items() if calls > before.get(text, 0)}
    rate = sum(new.values()) / seconds
    figures.add("statements on the server", rate, "per s", target=TARGET_STATEMENTS_PER_SECOND, at_most=True)
    for text, calls in sorted(new.items(), key=lambda pair: -pair[1])[:5]:
        figures.print_line(f"  {calls / seconds:5.2f}/s  {' '.join(text.split())[:100]}")
    figures.add("CPU of the process", used / seconds, "%")


def _start_worker(server: Postgres, tasks: int) -> WorkerProcess:
    options = {"role": "work", "alias": "postgres", "worker": {"coroutines": tasks}, "expected": 0}
    return WorkerProcess("benchmarks.support.steady_queue_worker", options, environment=address(server))


def _wait_for_reports(counter: StatementCounter, tasks: int) -> None:
    """Wait until every task has reported."""
    deadline = time.monotonic() + START_SECONDS
    query = b"SELECT count(*) FROM steady_queue_job WHERE progress IS NOT NULL"
    while counter.connection.execute(query).fetchall() != [(tasks,)]:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"after {START_SECONDS:.0f} s some tasks had not reported")
        time.sleep(0.2)
