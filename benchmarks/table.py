"""What is printed: a line for each case, as soon as it is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.race import ratio

if TYPE_CHECKING:
    from benchmarks.race import Rates


@dataclass(frozen=True, slots=True)
class Line:
    """One case: our rates, those of the other side, and the ratio that is asked for."""

    database: str
    what: str
    rates: Rates = field(repr=False)
    theirs: str = "bare"
    bar: float | None = None

    @property
    def ratio(self) -> float:
        return ratio(self.rates, "ours", self.theirs)

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.ratio < self.bar

    @property
    def cells(self) -> tuple[str, ...]:
        ours, theirs = (f"{median(self.rates[side]):,.0f}" for side in ("ours", self.theirs))
        if self.bar is None:
            return (self.what, ours, theirs, f"{self.ratio:.0%}", "", "")
        return (self.what, ours, theirs, f"{self.ratio:.0%}", f"{self.bar:.0%}", "MISSED" if self.missed else "ok")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "missed": self.missed}


class Table:
    """The lines, under a heading for each database."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    @property
    def missed(self) -> list[Line]:
        return [line for line in self.lines if line.missed]

    def heading(self, text: str) -> None:
        print()
        _print((text, "ours/s", "bare/s", "ratio", "bar", "verdict"))

    def add(self, line: Line) -> None:
        self.lines.append(line)
        _print(line.cells)


def _print(cells: tuple[str, ...]) -> None:
    what, ours, theirs, share, bar, verdict = cells
    print(f"{what:<28}{ours:>9}{theirs:>9}{share:>7}{bar:>7}  {verdict}".rstrip(), flush=True)
