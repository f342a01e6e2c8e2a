"""Prints the figures of a benchmark, each with its target, as soon as they are known."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.support.rounds import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.support.rounds import Rates

#: The labels of two systems that several benchmarks compare.
STEADY_QUEUE, BARE_DRIVER = "Steady Queue", "bare driver"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, and its target if it has one: at least `target`, or at most `target`."""

    section: str
    what: str
    value: float
    unit: str = "/s"
    target: float | None = None
    at_most: bool = False
    note: str = ""
    #: The values of the rounds; `value` is their median.
    rounds: Sequence[float] = ()

    @property
    def is_missed(self) -> bool:
        if self.target is None:
            return False
        return self.value > self.target if self.at_most else self.value < self.target

    @property
    def value_text(self) -> str:
        return _format(self.value, self.unit)

    @property
    def target_text(self) -> str:
        if self.target is None:
            return ""
        return f"{'<=' if self.at_most else '>='} {_format(self.target, self.unit)}"

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "MISSED" if self.is_missed else "ok"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "missed": self.is_missed}

    def __str__(self) -> str:
        return f"{self.what:<66}{self.value_text:>14}{self.target_text:>16}  {self.verdict:<7}{self.note}".rstrip()


class Figures:
    """All figures of a benchmark, and the problems that it found."""

    def __init__(self) -> None:
        self.all: list[Figure] = []
        self.problems: list[str] = []
        self.section = ""
        self._started = time.monotonic()
        self._load = os.getloadavg()[0]

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.all if figure.is_missed]

    def start_section(self, section: str, heading: str) -> None:
        self.section = section
        print(f"\n{heading}", flush=True)

    def add(self, what: str, value: float, unit: str = "/s", **more: Any) -> None:
        figure = Figure(self.section, what, value, unit, **more)
        self.all.append(figure)
        print(f"  {figure}", flush=True)

    def print_line(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def add_problems(self, problems: list[str]) -> None:
        self.problems += problems
        for problem in problems:
            print(f"  PROBLEM: {problem}", flush=True)

    def print_summary(self, rounds: int | None = None) -> None:
        """Print how the figures were measured, and every missed target again."""
        medians = "" if rounds is None else f"Medians of {rounds} round{'s' if rounds > 1 else ''}. "
        seconds = time.monotonic() - self._started
        print(f"\n{medians}Python {platform.python_version()}. The benchmark took {seconds:.0f} s.", end=" ")
        print(f"The load average of the machine before it was {self._load:.1f}.")
        for figure in self.missed:
            print(f"Target missed: {figure.section}: {figure.what}: {figure.value_text}, not {figure.target_text}")

    @property
    def exit_status(self) -> int:
        return 1 if self.missed or self.problems else 0


def _format(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"
    digits = 0 if unit in ("/s", "MB", "") else 2
    return f"{value:,.{digits}f}{unit if unit.startswith('/') else f' {unit}'.rstrip()}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One case: the rates of Steady Queue and of another system, and the target for their ratio."""

    database: str
    what: str
    rates: Rates = field(repr=False)
    compared_with: str = BARE_DRIVER
    target: float | None = None

    @property
    def ratio(self) -> float:
        return ratio(self.rates, STEADY_QUEUE, self.compared_with)

    @property
    def is_missed(self) -> bool:
        return self.target is not None and self.ratio < self.target

    @property
    def cells(self) -> tuple[str, ...]:
        rates = (f"{median(self.rates[system]):,.0f}/s" for system in (STEADY_QUEUE, self.compared_with))
        if self.target is None:
            return (self.what, *rates, f"{self.ratio:.0%}", "", "")
        return (self.what, *rates, f"{self.ratio:.0%}", f"{self.target:.0%}", "MISSED" if self.is_missed else "ok")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "missed": self.is_missed}


class ComparisonTable:
    """The comparisons, with a heading for each database."""

    def __init__(self) -> None:
        self.rows: list[Comparison] = []

    @property
    def missed(self) -> list[Comparison]:
        return [row for row in self.rows if row.is_missed]

    def print_heading(self, text: str) -> None:
        print()
        _print_row((text, STEADY_QUEUE, BARE_DRIVER, "ratio", "target", ""))

    def add(self, row: Comparison) -> None:
        self.rows.append(row)
        _print_row(row.cells)


def _print_row(cells: tuple[str, ...]) -> None:
    what, measured, compared_with, share, target, verdict = cells
    print(f"{what:<32}{measured:>13}{compared_with:>13}{share:>8}{target:>8}  {verdict}".rstrip(), flush=True)
