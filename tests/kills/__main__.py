"""The kills in their long form: `python -m tests.kills --runs 200 --database postgres --seed 7`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from random import randrange

from tests.storm.databases import databases
from tests.support.processes.default_signals import restore_signals

DATABASES = ("postgres", "mariadb")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--database", action="append", choices=DATABASES, help="may be repeated (default: both)")
    parser.add_argument("--seed", type=int, help="of the points (default: any; it is printed)")
    parser.add_argument("--runs", type=int, default=200, help="on each database")
    options = parser.parse_args()
    aliases: list[str] = options.database or list(DATABASES)
    seed = randrange(1_000_000) if options.seed is None else options.seed
    say(f"seed {seed}")
    restore_signals()
    with databases(aliases):
        return max(run(alias, options.runs, seed) for alias in aliases)


def run(alias: str, runs: int, seed: int) -> int:
    """Run the program on one database, and print its report."""
    command = [sys.executable, "-m", "tests.kills.program", alias, str(runs), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        say(done.stderr)
        return 1
    report = json.loads(done.stdout.splitlines()[-1])
    for place, number in report["kills"].items():
        say(f"{alias}  {number:3}  {place}")
    killed = sum(report["kills"].values())
    say(f"{alias}: {report['runs']} runs at {report['points']} points, {killed} killed, {len(report['wrong'])} wrong")
    for each in report["wrong"]:
        say(f"{alias}: {each}")
    return 1 if report["wrong"] else 0


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
