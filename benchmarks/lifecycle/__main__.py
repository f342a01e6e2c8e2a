"""Measures how fast `manage.py steady_queue` starts, stops and recovers: `python -m benchmarks.lifecycle`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.options import names, positive
from benchmarks.support.process_usage import read_cpu_seconds, read_memory
from benchmarks.support.processes import BenchmarkError
from benchmarks.support.report import Figures
from benchmarks.support.servers import DATABASES, databases, version
from tests.support.servers import ServerMissing, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.lifecycle.example_shop import ExampleShop
    from tests.support.servers import MariaDB, Postgres

#: From the kill of a worker until its task has failed, and until another worker starts a task.
TARGET_FAILED_SECONDS, TARGET_REPLACED_SECONDS = 1.0, 3.0
#: From SIGTERM to the exit, and from the start of the command to the start of the first task.
TARGET_STOP_SECONDS, TARGET_START_SECONDS = 1.0, 1.5
#: Of the supervisor: the memory above that of `django.setup()`, and the share of a CPU.
TARGET_MEGABYTES, TARGET_CPU = 10.0, 0.005
#: The time in which a started supervisor becomes idle, and the time for which it is measured then.
SETTLE_SECONDS, MEASURE_SECONDS = 3.0, 20.0
#: The number of short tasks, and how long each one takes.
SHORT_TASKS, SHORT_TASK_SECONDS = 400, 0.02
#: The arguments of the command in each mode.
MODES = {"supervisor": [], "--async": ["--async"]}
#: Python code that makes the tasks known to the command.
IMPORT_TASKS = "import django\ndjango.setup()\nimport benchmarks.lifecycle.timestamp_tasks"
DESCRIPTION = """\
Measure how fast `manage.py steady_queue` starts, stops and recovers from the kill of a
worker, and the memory and CPU time of its supervisor.

Each round starts its own processes. The times come from the tasks and from the
database, which use the clock of this machine. The median of the rounds counts; the
longest is printed next to it. The exit status is 1 if a target was missed.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything and return the exit status."""
    options = _parse_options(arguments)
    figures = Figures()
    try:
        with _compile_python(), databases(options.databases) as servers:
            for alias in options.databases:
                Benchmark(alias, servers, options.rounds, figures).run()
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    figures.print_summary(options.rounds)
    return figures.exit_status


@contextmanager
def _compile_python() -> Iterator[None]:
    """Let the measured processes use bytecode, as an installed package does, even if this process does not write it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        os.environ["PYTHONPYCACHEPREFIX"] = directory
        yield


class Recovery(NamedTuple):
    """Seconds from the kill of a worker until its task has failed, and until another worker started a task."""

    failed: float
    replaced: float


class Benchmark:
    """The measurements on one database."""

    def __init__(self, alias: str, servers: dict[str, Postgres | MariaDB], rounds: int, figures: Figures) -> None:
        import steady_queue

        steady_queue.database = alias
        self.alias = alias
        self.servers = servers
        self.rounds = rounds
        self.figures = figures

    def run(self) -> None:
        from benchmarks.lifecycle.example_shop import open_example_shop

        self.figures.start_section(self.alias, version(self.alias))
        self._attempt(self._measure_recoveries)
        self._attempt(self._measure_stops)
        with open_example_shop(self.alias, self.servers) as project:
            self._attempt(lambda: self._measure_starts(project))
            self._attempt(lambda: self._measure_idle(project))

    def _attempt(self, measure: Callable[[], None]) -> None:
        try:
            measure()
        except (BenchmarkError, TimeoutError) as error:
            self.figures.add_problems([f"{self.alias}: {error}"])

    def _add(self, what: str, seconds: Sequence[float], target: float) -> None:
        note = f"longest {max(seconds):.2f} s"
        self.figures.add(what, median(seconds), "s", target=target, at_most=True, note=note, rounds=seconds)

    # -- a worker is killed -------------------------------------------------------------------------------------------

    def _measure_recoveries(self) -> None:
        recoveries = [self._kill_worker() for _ in self._rounds(more=1)][1:]
        failed, replaced = zip(*recoveries, strict=True)
        self._add("killed worker: until its task has failed", failed, TARGET_FAILED_SECONDS)
        self._add("killed worker: until another one starts a task", replaced, TARGET_REPLACED_SECONDS)

    def _kill_worker(self) -> Recovery:
        from benchmarks.lifecycle.timestamp_tasks import block_thread, read_times, write_time
        from steady_queue.models import FailedExecution
        from tests.support.databases.tables import query
        from tests.support.processes.commands import command

        with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
            first, second = Path(directory) / "first", Path(directory) / "second"
            block_thread.enqueue(str(first))
            with command(self.alias, "--threads", "1", setup=IMPORT_TASKS) as process:
                wait_until(lambda: bool(read_times(first)), "the first task starts")
                write_time.enqueue(str(second))  # it waits, because the first task occupies the only thread
                join = "JOIN steady_queue_claimedexecution c ON c.process_id = p.id"
                ((pid,),) = query(self.alias, f"SELECT p.pid FROM steady_queue_process p {join}")
                killed, killed_wall_time = time.monotonic(), time.time()
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: bool(read_times(second)), "the second task starts")
                failures = FailedExecution._base_manager.using(self.alias)
                wait_until(failures.exists, "the task has failed")
                failed = failures.get().failed_at.timestamp()
                replaced = read_times(second)[0]
                process.terminate()
                process.wait()
            return Recovery(failed - killed_wall_time, replaced - killed)

    # -- a graceful stop ----------------------------------------------------------------------------------------------

    def _measure_stops(self) -> None:
        for mode, arguments in MODES.items():
            seconds = [self._stop(arguments) for _ in self._rounds()]
            self._add(f"{mode}: from SIGTERM to the exit, with short tasks", seconds, TARGET_STOP_SECONDS)

    def _stop(self, arguments: list[str]) -> float:
        from benchmarks.lifecycle.timestamp_tasks import async_sleep, read_times, sync_sleep
        from steady_queue import enqueue_all
        from tests.support.databases.tables import query
        from tests.support.processes.commands import command

        with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
            path = Path(directory) / "times"
            tasks = [sync_sleep if number % 2 else async_sleep for number in range(SHORT_TASKS)]
            enqueue_all(task.bind(str(path), SHORT_TASK_SECONDS) for task in tasks)
            with command(self.alias, "--threads", "2", "--coroutines", "2", *arguments, setup=IMPORT_TASKS) as process:
                wait_until(lambda: len(read_times(path)) >= SHORT_TASKS // 20, "tasks run")
                stopped = time.monotonic()
                process.terminate()
                process.wait()
                seconds = time.monotonic() - stopped
            ran = len(read_times(path))
        finished = query(self.alias, "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL")[0][0]
        if not SHORT_TASKS > ran == finished:
            self.figures.add_problems([f"{ran} of {SHORT_TASKS} tasks ran, but {finished} jobs are finished"])
        return seconds

    # -- the example project ------------------------------------------------------------------------------------------

    def _measure_starts(self, project: ExampleShop) -> None:
        for mode, arguments in MODES.items():
            seconds = [self._start(project, arguments) for _ in self._rounds(project.alias, more=1)][1:]
            self._add(f"{mode}: from the start to the first task, example shop", seconds, TARGET_START_SECONDS)

    def _start(self, project: ExampleShop, arguments: list[str]) -> float:
        from steady_queue.models import Job

        project.place_order()
        jobs = Job._base_manager.using(project.alias)
        started_jobs = jobs.filter(started_at__isnull=False).order_by("started_at")
        begin = time.time()
        with project.command(*arguments):
            wait_until(started_jobs.exists, "a task starts")
            started_at = started_jobs.values_list("started_at", flat=True)[0]
        assert started_at is not None
        return started_at.timestamp() - begin

    def _measure_idle(self, project: ExampleShop) -> None:
        from tests.support.databases.tables import count

        with project.run_django_setup() as django_process:
            django_memory = read_memory(django_process.pid)
        with project.command() as process:
            wait_until(lambda: count(project.alias, "process") == 3, "all processes have started")
            time.sleep(SETTLE_SECONDS)
            before = read_cpu_seconds(process.pid)
            time.sleep(MEASURE_SECONDS)
            cpu = (read_cpu_seconds(process.pid) - before) / MEASURE_SECONDS
            memory = read_memory(process.pid)
        difference = memory - django_memory
        note = f"{memory.rss:.1f} MB, django.setup() alone {django_memory.rss:.1f} MB"
        target = {"target": TARGET_MEGABYTES, "at_most": True}
        self.figures.add("supervisor: memory above django.setup(), RSS", difference.rss, "MB", note=note, **target)
        if difference.uss is not None:
            self.figures.add("supervisor: memory above django.setup(), USS", difference.uss, "MB", **target)
        self.figures.add("supervisor: CPU while idle", cpu, "%", target=TARGET_CPU, at_most=True)

    def _rounds(self, alias: str | None = None, more: int = 0) -> Iterator[int]:
        """The rounds, each with empty tables. `more` is for a first round that compiles bytecode and does not count."""
        from tests.support.databases.tables import EXECUTIONS, query

        for number in range(self.rounds + more):
            yield number
            for table in (*EXECUTIONS, "semaphore", "process", "job"):
                query(alias or self.alias, f"DELETE FROM steady_queue_{table}")


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.lifecycle",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=positive, default=5, help="number of rounds of each measurement (default: %(default)s)"
    )
    parser.add_argument(
        "--databases",
        type=names(DATABASES),
        default=["postgres", "sqlite"],
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)}, separated by commas (default: postgres,sqlite)",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
