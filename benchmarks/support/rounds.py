"""Runs systems in alternating rounds. Each run has a process of its own, which is ready before the clock starts.

A rate is tasks / (time when all of them are finished in the database - time when the first of them started), for all
systems: it contains neither the start of the process nor the first claim.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.support.processes import TIMEOUT_SECONDS, BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.support.report import Figures
    from benchmarks.support.systems import System
    from tests.support.servers import MariaDB, Postgres

#: The jobs per second of each system, by label, round by round.
Rates: TypeAlias = dict[str, list[float]]

#: A quick run divides the number of tasks by this: it shows that the benchmark works, its figures mean little.
QUICK_DIVISOR = 10
#: The interval of the check whether all jobs are finished.
CHECK_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class Context:
    """What every section receives: where to add figures, the servers, and the options of the command."""

    figures: Figures
    servers: dict[str, Postgres | MariaDB]
    rounds: int
    is_quick: bool = False
    #: The Python interpreters of peers that are installed in other environments, by name.
    pythons: dict[str, str] = field(default_factory=dict)

    def reduce(self, number: int) -> int:
        """The number, or a tenth of it in a quick run."""
        return number // QUICK_DIVISOR if self.is_quick else number

    @property
    def postgres(self) -> Postgres:
        from tests.support.servers import Postgres

        server = self.servers["postgres"]
        assert isinstance(server, Postgres)
        return server


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run."""

    jobs: int
    #: From the start of the first task until all jobs were finished in the database.
    seconds: float
    #: From the command "go" until all jobs were finished in the database.
    seconds_since_go: float
    report: dict[str, Any]

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


def run_once(system: System, figures: Figures, *, check_seconds: float = CHECK_SECONDS) -> Run:
    """Run the system once, and add the problems that the run has found to the figures."""
    with system.start() as process:
        process.receive("ready")
        system.prepare_tables()
        go = time.monotonic_ns()
        process.send("go")
        started = process.receive("started")
        wait_until_finished(system, check_seconds)
        finished = time.monotonic_ns()
        report = process.request_report()
    check_run(system, report, figures)
    return Run(system.jobs, (finished - started["first"]) / 1e9, (finished - go) / 1e9, report)


def wait_until_finished(system: System, check_seconds: float = CHECK_SECONDS) -> None:
    """Wait until all jobs are finished in the database."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not system.is_finished():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{system.label}: all tasks have started, but some jobs are not finished")
        time.sleep(check_seconds)


def check_run(system: System, report: dict[str, Any], figures: Figures) -> None:
    """Check that each task ran exactly once, by the count of the worker and by the rows."""
    problems = system.find_problems()
    if not report["runs"] == report["tasks"] == system.jobs:
        problems.append(f"{system.label}: {report['runs']} runs of {report['tasks']} tasks instead of {system.jobs}")
    figures.add_problems(problems)


def alternate(systems: Sequence[System], figures: Figures, rounds: int) -> tuple[Rates, dict[str, list[Run]]]:
    """Run each system once in each round, so that other load on the machine affects all of them.

    Returns the rates and the runs of each system, by label.
    """
    runs: dict[str, list[Run]] = {system.label: [] for system in systems}
    for _ in range(rounds):
        for system in systems:
            runs[system.label].append(run_once(system, figures))
    return {label: [run.rate for run in of_system] for label, of_system in runs.items()}, runs


def ratio(rates: Rates, first: str, second: str) -> float:
    """The median of the ratios of each round: the load of the machine changes less within a round than between two."""
    return median(one / other for one, other in zip(rates[first], rates[second], strict=True))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
