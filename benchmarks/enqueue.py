"""How fast tasks are enqueued, beside the bare drivers doing the same inserts: `python -m benchmarks.enqueue`.

On private, durable servers: each commit reaches the disk. Sides take turns, and the median of the rounds counts. The
status is 1 when a bar is missed or when the rows are not what they should be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import steady_queue
from benchmarks.bare import Bare, BareMariaDB, BarePostgres, BareSQLite
from benchmarks.calls import TOGETHER, calls
from benchmarks.race import AsyncSide, Side, arace, race
from benchmarks.rival import HOW_TO_INSTALL, INSTALLED, LABEL, rival
from benchmarks.servers import DATABASES, databases, parameters, version
from benchmarks.table import Line, Table
from tests.support.servers import Postgres, ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.race import Rates
    from tests.support.servers import MariaDB

BARES: dict[str, type[Bare]] = {"postgres": BarePostgres, "mariadb": BareMariaDB, "sqlite": BareSQLite}
#: Ours must be faster than PgQueuer's bulk.
RIVAL_BAR = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """A way to enqueue, named as in benchmarks.ours and benchmarks.bare, and how many jobs a round has.

    Rounds of single jobs are short and come in greater number: the sides meet the same neighbours on the machine.
    """

    way: str
    what: str
    jobs: int
    #: How many rounds for each one asked for.
    times: int = 1
    #: The share of the bare driver's rate that is asked of ours on PostgreSQL.
    bar: float | None = None
    #: Whether the bare driver is given finished rows, not calls.
    ready_made: bool = False


CASES = (
    Case("each", "enqueue, one at a time", 40, times=5, ready_made=True),
    Case("aeach", "aenqueue, one at a time", 40, times=5, ready_made=True, bar=0.6),
    Case("atogether", f"aenqueue, {TOGETHER} at once", TOGETHER, times=5, ready_made=True),
    Case("bulk", "enqueue_all of 10,000", 10_000, bar=0.6),
    Case("abulk", "aenqueue_all of 10,000", 10_000, bar=0.6),
)


class Benchmark:
    """The cases on one database."""

    def __init__(self, alias: str, server: Postgres | MariaDB | None, rounds: int, table: Table) -> None:
        # Not importable before Django is set up.
        from benchmarks import evidence, ours

        self.alias = alias
        self.server = server
        self.rounds = rounds
        self.table = table
        self.ours, self.evidence = ours, evidence
        self.bare = BARES[alias](parameters(alias))
        self.problems: list[str] = []

    def run(self, cases: Sequence[Case] = CASES) -> None:
        steady_queue.database = self.alias
        self.table.heading(version(self.alias))
        for case in cases:
            rates = asyncio.run(self._arates(case)) if case.way.startswith("a") else self._rates(case)
            bar = case.bar if self.alias == "postgres" else None
            self.table.add(Line(self.alias, case.what, rates, bar=bar))
            if LABEL in rates:
                self.table.add(Line(self.alias, f"  beside {LABEL}", rates, theirs=LABEL, bar=RIVAL_BAR))
            self.problems += self.evidence.problems(self.alias, 2 * (self.rounds * case.times + 1) * case.jobs)
            self.evidence.sweep(self.alias)

    def _rates(self, case: Case) -> Rates:
        with self.bare.opened():
            bare = Side(getattr(self.bare, case.way), self.bare.prepare if case.ready_made else list)
            return race(
                {"ours": Side(getattr(self.ours, case.way)), "bare": bare}, calls(case.jobs), self.rounds * case.times
            )

    async def _arates(self, case: Case) -> Rates:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.bare.aopened())
            bare = AsyncSide(getattr(self.bare, case.way), self.bare.prepare if case.ready_made else list)
            sides = {"ours": AsyncSide(getattr(self.ours, case.way)), "bare": bare}
            other = None
            if case.way == "abulk" and INSTALLED and isinstance(self.server, Postgres):
                other = await stack.enter_async_context(rival(self.server))
                sides[LABEL] = AsyncSide(other.abulk)
            rates = await arace(sides, calls(case.jobs), self.rounds * case.times)
            expected = (self.rounds * case.times + 1) * case.jobs
            if other is not None and (stored := await other.count()) != expected:
                self.problems.append(f"{LABEL} has stored {stored} jobs instead of {expected}")
        return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and return the exit status."""
    options = _options(arguments)
    begun = time.monotonic()
    table = Table()
    problems: list[str] = []
    try:
        with databases(options.only) as servers:
            for alias in options.only:
                benchmark = Benchmark(alias, servers.get(alias), options.rounds, table)
                benchmark.run()
                problems += benchmark.problems
    except ServerMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    if options.json:
        options.json.write_text(json.dumps(_record(table, problems), indent=2))
    took = time.monotonic() - begun
    print(f"\nMedians of {options.rounds} rounds or more, Python {platform.python_version()}, {took:.0f} s.")
    if "postgres" in options.only and not INSTALLED:
        print(HOW_TO_INSTALL)
    print("\n".join(problems) or "Every job counted, once, with its execution row; no invariant broken.")
    for line in table.missed:
        print(f"Bar missed on {line.database}: {line.what.strip()}, {line.ratio:.0%} instead of {line.bar:.0%}.")
    return 1 if table.missed or problems else 0


def _record(table: Table, problems: Sequence[str]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "lines": [line.as_json() for line in table.lines],
        "problems": list(problems),
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.enqueue", description="Measure how fast tasks are enqueued."
    )
    parser.add_argument("--rounds", type=_positive, default=7, help="rounds of each case (default: %(default)s)")
    parser.add_argument(
        "--only",
        type=_aliases,
        default=DATABASES,
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)} (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rates here as well")
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number} is not positive")
    return number


def _aliases(text: str) -> list[str]:
    chosen = text.split(",")
    if unknown := set(chosen) - set(DATABASES):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(DATABASES)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
