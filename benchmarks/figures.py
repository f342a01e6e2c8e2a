"""Figures beside their bars, printed as soon as they are known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """One number and what is asked of it: at least `bar`, or at most `bar`; without one it is for the record."""

    section: str
    what: str
    value: float
    unit: str = "/s"
    bar: float | None = None
    at_most: bool = False
    note: str = ""
    #: What it is the median of.
    rounds: Sequence[float] = ()

    @property
    def missed(self) -> bool:
        if self.bar is None:
            return False
        return self.value > self.bar if self.at_most else self.value < self.bar

    @property
    def asked(self) -> str:
        if self.bar is None:
            return ""
        return f"{'<=' if self.at_most else '>='} {_text(self.bar, self.unit)}"

    @property
    def verdict(self) -> str:
        if self.bar is None:
            return ""
        return "MISSED" if self.missed else "ok"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "missed": self.missed}

    def __str__(self) -> str:
        line = f"{self.what:<52}{_text(self.value, self.unit):>14}{self.asked:>16}  {self.verdict:<7}{self.note}"
        return line.rstrip()


class Figures:
    """All of them, and everything else that was wrong."""

    def __init__(self) -> None:
        self.all: list[Figure] = []
        self.problems: list[str] = []
        self.section = ""

    @property
    def missed(self) -> list[Figure]:
        return [figure for figure in self.all if figure.missed]

    def heading(self, section: str, text: str) -> None:
        self.section = section
        print(f"\n{text}", flush=True)

    def add(self, what: str, value: float, unit: str = "/s", **more: Any) -> None:
        figure = Figure(self.section, what, value, unit, **more)
        self.all.append(figure)
        print(f"  {figure}", flush=True)

    def say(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def wrong(self, problems: list[str]) -> None:
        self.problems += problems
        for problem in problems:
            print(f"  WRONG: {problem}", flush=True)


def _text(value: float, unit: str) -> str:
    if unit == "%":
        return f"{value:.1%}" if value < 0.1 else f"{value:.0%}"
    digits = 0 if unit in ("/s", "MB", "") else 2
    return f"{value:,.{digits}f}{unit if unit.startswith('/') else f' {unit}'.rstrip()}"
