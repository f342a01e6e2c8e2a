"""Runs of contenders taken in turn, each with a process of its own that is up before the clock starts.

A rate is tasks / (all of them finished in the database - the first of them started), for all sides alike: boot is left
out, and so is the first claim.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.hands import PATIENCE, HandError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.contenders import Contender
    from benchmarks.figures import Figures
    from benchmarks.race import Rates

#: Between two looks at the database for what is left, in seconds.
LOOK_EVERY = 0.002


@dataclass(frozen=True, slots=True)
class Run:
    """What one run has shown."""

    jobs: int
    #: Seconds from the first start, and from the word "go", until everything was finished in the database.
    seconds: float
    since_go: float
    report: dict[str, Any]

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


def run(contender: Contender, figures: Figures, *, look_every: float = LOOK_EVERY) -> Run:
    """One run. What went wrong is told to the figures."""
    with contender.start() as hand:
        hand.hear("ready")
        contender.calm()
        begun = time.monotonic_ns()
        hand.say("go")
        ran = hand.hear("ran")
        wait_for(contender, look_every)
        ended = time.monotonic_ns()
        report = hand.ask()
    check(contender, report, figures)
    return Run(contender.jobs, (ended - ran["first"]) / 1e9, (ended - begun) / 1e9, report)


def wait_for(contender: Contender, look_every: float = LOOK_EVERY) -> None:
    """Wait until the database knows that everything is finished."""
    deadline = time.monotonic() + PATIENCE
    while not contender.settled():
        if time.monotonic() > deadline:
            raise HandError(f"{contender.label}: tasks ran, but not all of them are ever finished")
        time.sleep(look_every)


def check(contender: Contender, report: dict[str, Any], figures: Figures) -> None:
    """Every task exactly once, by its own count and by the rows."""
    problems = contender.problems()
    if not report["runs"] == report["tasks"] == contender.jobs:
        problems.append(f"{contender.label}: {report['runs']} runs of {report['tasks']} tasks, not {contender.jobs}")
    figures.wrong(problems)


def turns(contenders: Sequence[Contender], figures: Figures, rounds: int) -> tuple[Rates, dict[str, list[Run]]]:
    """The rates of each, by label, round by round, and the runs themselves."""
    runs: dict[str, list[Run]] = {contender.label: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            runs[contender.label].append(run(contender, figures))
    return {label: [one.rate for one in its] for label, its in runs.items()}, runs
