"""Whether `manage.py steady_queue` starts, stops and recovers in time: `python -m benchmarks.running`.

Every round has processes of its own. The moments come from the tasks themselves and from the database, which shares
this machine's clock. The median of the rounds counts; the worst is told beside it. The status is 1 when a bar is
missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.figures import Figures
from benchmarks.hands import HandError
from benchmarks.servers import DATABASES, databases, version
from benchmarks.vitals import cpu, memory
from tests.support.servers import ServerMissing, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.example import Example
    from tests.support.servers import MariaDB, Postgres

#: Seconds: until a killed worker's task has failed, until another takes tasks, to stop, to the first task.
FAILED_BAR, REPLACED_BAR, STOP_BAR, START_BAR = 1.0, 3.0, 1.0, 1.5
#: The supervisor: MB above `django.setup()`, and its share of a processor.
MEMORY_BAR, CPU_BAR = 10.0, 0.005
#: Until nothing is left to do after the start, and how long that is watched, in seconds.
SETTLE, WATCH = 3.0, 20.0
#: Tasks that end soon: how many, and how long each takes, in seconds.
SHORT, NAP = 400, 0.02
#: Where tasks run, and what the command is told for it.
MODES = {"supervisor": [], "--async": ["--async"]}
#: A manage.py that knows the tasks.
KNOWN = "import django\ndjango.setup()\nimport benchmarks.moments"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure everything and return the exit status."""
    options = _options(arguments)
    begun, load = time.monotonic(), os.getloadavg()[0]
    figures = Figures()
    try:
        with _compiled(), databases(options.databases) as servers:
            for alias in options.databases:
                Measured(alias, servers, options.rounds, figures).everything()
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    took = time.monotonic() - begun
    print(f"\nMedians of {options.rounds} rounds, Python {platform.python_version()}, {took:.0f} s.", end=" ")
    print(f"Load of the machine before: {load:.1f}.")
    for figure in figures.missed:
        print(f"Bar missed: {figure.section}: {figure}")
    return 1 if figures.missed or figures.problems else 0


@contextmanager
def _compiled() -> Iterator[None]:
    """Processes find compiled code, as that of an installed package is, whatever this one was told."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        os.environ["PYTHONPYCACHEPREFIX"] = directory
        yield


class Death(NamedTuple):
    """Seconds after a worker was killed."""

    failed: float
    replaced: float


class Measured:
    """Everything on one database."""

    def __init__(self, alias: str, servers: dict[str, Postgres | MariaDB], rounds: int, figures: Figures) -> None:
        import steady_queue

        steady_queue.database = alias
        self.alias = alias
        self.servers = servers
        self.rounds = rounds
        self.figures = figures

    def everything(self) -> None:
        from benchmarks.example import example

        self.figures.heading(self.alias, version(self.alias))
        self._attempt(self._deaths)
        self._attempt(self._stops)
        with example(self.alias, self.servers) as project:
            self._attempt(lambda: self._starts(project))
            self._attempt(lambda: self._idle(project))

    def _attempt(self, measure: Callable[[], None]) -> None:
        try:
            measure()
        except (HandError, TimeoutError) as error:
            self.figures.wrong([f"{self.alias}: {error}"])

    def _add(self, what: str, taken: Sequence[float], bar: float, unit: str = "s") -> None:
        worst = f"worst {max(taken):.2f} {unit}"
        self.figures.add(what, median(taken), unit, bar=bar, at_most=True, note=worst, rounds=taken)

    # -- a worker is killed -------------------------------------------------------------------------------------------

    def _deaths(self) -> None:
        deaths = [self._death() for _ in self._rounds(more=1)][1:]
        self._add("killed worker: its task has failed after", [death.failed for death in deaths], FAILED_BAR)
        self._add("killed worker: another took a task after", [death.replaced for death in deaths], REPLACED_BAR)

    def _death(self) -> Death:
        from benchmarks.moments import blocks, noted, notes
        from steady_queue.models import FailedExecution
        from tests.support.databases.tables import query
        from tests.support.processes.commands import command

        with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
            begun, taken = Path(directory) / "begun", Path(directory) / "taken"
            blocks.enqueue(str(begun))
            with command(self.alias, "--threads", "1", setup=KNOWN) as process:
                wait_until(lambda: bool(noted(begun)), "the first task begins")
                notes.enqueue(str(taken))  # waits: the only thread is taken
                of_claim = "JOIN steady_queue_claimedexecution c ON c.process_id = p.id"
                ((pid,),) = query(self.alias, f"SELECT p.pid FROM steady_queue_process p {of_claim}")
                killed, wall = time.monotonic(), time.time()
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda: bool(noted(taken)), "the next task is taken")
                failures = FailedExecution._base_manager.using(self.alias)
                wait_until(failures.exists, "the task has failed")
                failed = failures.get().failed_at.timestamp()
                replaced = noted(taken)[0]
                process.terminate()
                process.wait()
            return Death(failed - wall, replaced - killed)

    # -- it is told to stop -------------------------------------------------------------------------------------------

    def _stops(self) -> None:
        for mode, arguments in MODES.items():
            taken = [self._stop(arguments) for _ in self._rounds()]
            self._add(f"{mode}: from TERM to exit, short tasks run", taken, STOP_BAR)

    def _stop(self, arguments: list[str]) -> float:
        from benchmarks.moments import naps, noted, rests
        from steady_queue import enqueue_all
        from tests.support.databases.tables import query
        from tests.support.processes.commands import command

        with TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
            path = Path(directory) / "moments"
            enqueue_all((naps if n % 2 else rests).bind(str(path), NAP) for n in range(SHORT))
            with command(self.alias, "--threads", "2", "--coroutines", "2", *arguments, setup=KNOWN) as process:
                wait_until(lambda: len(noted(path)) >= SHORT // 20, "tasks run")
                told = time.monotonic()
                process.terminate()
                process.wait()
                took = time.monotonic() - told
            ran = len(noted(path))
        finished = query(self.alias, "SELECT count(*) FROM steady_queue_job WHERE finished_at IS NOT NULL")[0][0]
        if not SHORT > ran == finished:
            self.figures.wrong([f"{ran} of {SHORT} tasks ran, {finished} are finished"])
        return took

    # -- an example project -------------------------------------------------------------------------------------------

    def _starts(self, project: Example) -> None:
        for mode, arguments in MODES.items():
            taken = [self._start(project, arguments) for _ in self._rounds(project.alias, more=1)][1:]
            self._add(f"{mode}: from start to the first task, example shop", taken, START_BAR)

    def _start(self, project: Example, arguments: list[str]) -> float:
        from steady_queue.models import Job

        project.place_order()
        jobs = Job._base_manager.using(project.alias)
        started = jobs.filter(started_at__isnull=False).order_by("started_at")
        begun = time.time()
        with project.command(*arguments):
            wait_until(started.exists, "a task starts")
            first = started.values_list("started_at", flat=True)[0].timestamp()
        return first - begun

    def _idle(self, project: Example) -> None:
        from tests.support.databases.tables import count

        with project.set_up() as bare:
            least = memory(bare.pid)
        with project.command() as process:
            wait_until(lambda: count(project.alias, "process") == 3, "all processes are there")
            time.sleep(SETTLE)
            before = cpu(process.pid)
            time.sleep(WATCH)
            used = (cpu(process.pid) - before) / WATCH
            whole = memory(process.pid)
        above = whole.above(least)
        note = f"{whole.rss:.1f} MB, django.setup() alone {least.rss:.1f} MB"
        bar = {"bar": MEMORY_BAR, "at_most": True}
        self.figures.add("supervisor: memory above django.setup(), RSS", above.rss, "MB", note=note, **bar)
        if above.uss is not None:
            self.figures.add("supervisor: memory above django.setup(), USS", above.uss, "MB", **bar)
        self.figures.add("supervisor: CPU while idle", used, "%", bar=CPU_BAR, at_most=True)

    def _rounds(self, alias: str | None = None, more: int = 0) -> Iterator[int]:
        """Each round finds empty tables. In the first of all, code is compiled: let there be one more."""
        from tests.support.databases.tables import EXECUTIONS, query

        for number in range(self.rounds + more):
            yield number
            for table in (*EXECUTIONS, "semaphore", "process", "job"):
                query(alias or self.alias, f"DELETE FROM steady_queue_{table}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.running", description="Measure starts, stops and recoveries, beside their bars."
    )
    parser.add_argument("--rounds", type=_positive, default=5, help="rounds of each measurement (default: %(default)s)")
    parser.add_argument(
        "--databases",
        type=_databases,
        default=["postgres", "sqlite"],
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)} (default: postgres,sqlite)",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def _databases(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(DATABASES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(DATABASES)}")
    return [alias for alias in DATABASES if alias in chosen]


if __name__ == "__main__":
    sys.exit(main())
