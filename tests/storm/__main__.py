"""The storm in its long form: `python -m tests.storm --database postgres --seed 7 --seconds 30 --tasks 1500`.

With `--limits` another one: eight workers that are only killed, amid tasks of which 1, 2 or 10 may run at once.
With `--control` a third one: workers are killed and terminated amid retries, timeouts, cancellations, expiries, unique
keys and transactional tasks.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from random import randrange

from tests.storm.databases import databases
from tests.support.processes.default_signals import restore_signals

DATABASES = ("postgres", "mariadb", "sqlite")
#: Violations that are printed; more of them add no information.
SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.storm", description=__doc__)
    parser.add_argument("--database", action="append", choices=DATABASES, help="may be repeated (default: all three)")
    parser.add_argument("--seed", type=int, help="of the tasks and the faults (default: any; it is printed)")
    parser.add_argument("--limits", action="store_true", help="eight workers, kills only, limits of 1, 2 and 10")
    parser.add_argument("--control", action="store_true", help="retries, timeouts, cancellation, expiry, uniqueness")
    parser.add_argument("--seconds", type=float, default=30.0, help="for how long faults are injected")
    parser.add_argument("--tasks", type=int, default=1500, help="how many are enqueued over that time")
    parser.add_argument("--keep", type=Path, help="where to keep the attempt log and the output of the workers")
    options = parser.parse_args()
    aliases: list[str] = options.database or list(DATABASES)
    seed = randrange(1_000_000) if options.seed is None else options.seed
    say(f"seed {seed}")
    restore_signals()
    with databases(aliases):
        return run_storms(aliases, seed, options)


def run_storms(aliases: list[str], seed: int, options: argparse.Namespace) -> int:
    from tests.storm.driver import Plan, control_plan, limits_plan  # not before Django is set up
    from tests.storm.report import row, table
    from tests.storm.run import storm
    from tests.support.databases.aliases import pointed_at

    rows, wrong = [], []
    for alias in aliases:
        with tempfile.TemporaryDirectory(prefix="steady-queue-storm-") as temporary, pointed_at(alias):
            directory: Path = options.keep / f"{alias}-{seed}" if options.keep else Path(temporary)
            shutil.rmtree(directory, ignore_errors=True)  # of an earlier storm with the same seed
            directory.mkdir(parents=True)
            build = limits_plan if options.limits else control_plan if options.control else Plan
            plan = build(alias, seed, options.seconds, options.tasks)
            storm_run, findings = storm(plan, directory)
            rows.append(row(storm_run, findings))
            wrong += [f"{alias}: {violation}" for violation in findings.violations]
    say(table(rows))
    for violation in wrong[:SHOWN]:
        say(violation)
    return 1 if wrong else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
