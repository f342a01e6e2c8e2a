"""Measures how fast tasks are enqueued, compared with bare drivers: `python -m benchmarks.enqueue`."""

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
from benchmarks.enqueue.bare_drivers import BareDriver, BareMariaDB, BarePostgres, BareSQLite
from benchmarks.enqueue.pgqueuer_calls import HOW_TO_INSTALL, IS_INSTALLED, LABEL, open_pgqueuer
from benchmarks.enqueue.timing import (
    CONCURRENT,
    AsyncImplementation,
    Implementation,
    ameasure_rates,
    build_calls,
    measure_rates,
)
from benchmarks.support.options import names, positive
from benchmarks.support.report import BARE_DRIVER, STEADY_QUEUE, Comparison, ComparisonTable
from benchmarks.support.servers import DATABASES, databases, parameters, version
from tests.support.servers import Postgres, ServerMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.support.rounds import Rates
    from tests.support.servers import MariaDB

DRIVERS: dict[str, type[BareDriver]] = {"postgres": BarePostgres, "mariadb": BareMariaDB, "sqlite": BareSQLite}
#: Steady Queue must be faster than PgQueuer's bulk.
TARGET_PGQUEUER = 1.0
DESCRIPTION = """\
Measure how fast tasks are enqueued, compared with the same inserts by bare drivers.

The servers are private and durable: each commit reaches the disk. The implementations
alternate, and the median of the rounds counts. The exit status is 1 if a target was
missed or if the stored rows are not as expected.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A function of steady_queue_calls.py and bare_drivers.py, and the number of jobs of a round.

    Rounds of single jobs are short and there are more of them, so that the load of the machine is the same for all
    implementations.
    """

    function: str
    what: str
    jobs: int
    #: The number of rounds for each round of the option --rounds.
    rounds_factor: int = 1
    #: The share of the bare driver's rate that Steady Queue must reach on PostgreSQL.
    target: float | None = None
    #: Whether the bare driver receives finished rows instead of calls.
    takes_rows: bool = False


CASES = (
    Case("one_by_one", "enqueue, one by one", 40, rounds_factor=5, takes_rows=True),
    Case("aone_by_one", "aenqueue, one by one", 40, rounds_factor=5, takes_rows=True, target=0.6),
    Case("aconcurrently", f"aenqueue, {CONCURRENT} at once", CONCURRENT, rounds_factor=5, takes_rows=True),
    Case("bulk", "enqueue_all of 10,000 calls", 10_000, target=0.6),
    Case("abulk", "aenqueue_all of 10,000 calls", 10_000, target=0.6),
)


class Benchmark:
    """The cases on one database."""

    def __init__(self, alias: str, server: Postgres | MariaDB | None, rounds: int, table: ComparisonTable) -> None:
        # Imported here, because these modules need Django to be set up.
        from benchmarks.enqueue import steady_queue_calls, stored_rows

        self.alias = alias
        self.server = server
        self.rounds = rounds
        self.table = table
        self.steady_queue, self.stored_rows = steady_queue_calls, stored_rows
        self.driver = DRIVERS[alias](parameters(alias))
        self.problems: list[str] = []

    def run(self, cases: Sequence[Case] = CASES) -> None:
        steady_queue.database = self.alias
        self.table.print_heading(version(self.alias))
        for case in cases:
            is_async = case.function.startswith("a")
            rates = asyncio.run(self._ameasure(case)) if is_async else self._measure(case)
            target = case.target if self.alias == "postgres" else None
            self.table.add(Comparison(self.alias, case.what, rates, target=target))
            if LABEL in rates:
                what = f"  compared with {LABEL}"
                self.table.add(Comparison(self.alias, what, rates, compared_with=LABEL, target=TARGET_PGQUEUER))
            stored = 2 * (self.rounds * case.rounds_factor + 1) * case.jobs
            self.problems += self.stored_rows.find_problems(self.alias, stored)
            self.stored_rows.empty_tables(self.alias)

    def _measure(self, case: Case) -> Rates:
        with self.driver.open():
            prepare = self.driver.prepare if case.takes_rows else list
            implementations = {
                STEADY_QUEUE: Implementation(getattr(self.steady_queue, case.function)),
                BARE_DRIVER: Implementation(getattr(self.driver, case.function), prepare),
            }
            return measure_rates(implementations, build_calls(case.jobs), self.rounds * case.rounds_factor)

    async def _ameasure(self, case: Case) -> Rates:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.driver.aopen())
            prepare = self.driver.prepare if case.takes_rows else list
            implementations = {
                STEADY_QUEUE: AsyncImplementation(getattr(self.steady_queue, case.function)),
                BARE_DRIVER: AsyncImplementation(getattr(self.driver, case.function), prepare),
            }
            pgqueuer = None
            if case.function == "abulk" and IS_INSTALLED and isinstance(self.server, Postgres):
                pgqueuer = await stack.enter_async_context(open_pgqueuer(self.server))
                implementations[LABEL] = AsyncImplementation(pgqueuer.abulk)
            rates = await ameasure_rates(implementations, build_calls(case.jobs), self.rounds * case.rounds_factor)
            expected = (self.rounds * case.rounds_factor + 1) * case.jobs
            if pgqueuer is not None and (stored := await pgqueuer.count_jobs()) != expected:
                self.problems.append(f"{LABEL} has stored {stored} jobs instead of {expected}")
        return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all cases and return the exit status."""
    options = _parse_options(arguments)
    started = time.monotonic()
    table = ComparisonTable()
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
        options.json.write_text(json.dumps(_as_json(table, problems), indent=2))
    seconds = time.monotonic() - started
    print(f"\nMedians of at least {options.rounds} round{'s' if options.rounds > 1 else ''}.", end=" ")
    print(f"Python {platform.python_version()}. The benchmark took {seconds:.0f} s.")
    if "postgres" in options.only and not IS_INSTALLED:
        print(HOW_TO_INSTALL)
    print("\n".join(problems) or "Every job was stored once with its execution row, and no invariant was violated.")
    for row in table.missed:
        print(f"Target missed on {row.database}: {row.what.strip()}, {row.ratio:.0%} instead of {row.target:.0%}.")
    return 1 if table.missed or problems else 0


def _as_json(table: ComparisonTable, problems: Sequence[str]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "comparisons": [row.as_json() for row in table.rows],
        "problems": list(problems),
    }


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.enqueue",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rounds", type=positive, default=7, help="number of rounds of each case (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        "--databases",
        type=names(DATABASES),
        default=list(DATABASES),
        metavar="DATABASES",
        help=f"some of {','.join(DATABASES)}, separated by commas (default: all)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all rates to this file")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
