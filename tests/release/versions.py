"""`make test-versions`: the contract and the first steps on every supported Python and Django, and a table of results.

Other tests can be named: `make test-versions ARGS="--only 3.12-6.0 tests/store"`. A Python that is not installed is
listed as such. Environments are kept in `.versions`. `ARGS=--write` puts the table into docs/installation.md, if every
combination has passed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
import tomllib
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path(__file__).resolve().parents[2]
#: The first Python that a series of Django supports.
FIRST_PYTHON = {"5.2": "3.10", "6.0": "3.12", "6.1": "3.12"}
#: The examples of the public interface on each database, and a project with a worker.
TESTS = ["tests/contract", "tests/release/test_first_steps.py"]
#: The distributions whose versions the table has.
SHOWN = ("psycopg", "mysqlclient", "asyncpg", "aiomysql", "aiosqlite")


class Leg(NamedTuple):
    python: str
    django: str


def classified(prefix: str) -> list[str]:
    """The versions in the classifiers of the package: `classified("Framework :: Django")`."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [found[1] for text in classifiers if (found := re.fullmatch(rf"{prefix} :: (\d+\.\d+)", text))]


def all_legs() -> list[Leg]:
    """Every pair of a Python and a Django in the classifiers that work with each other."""
    return [
        Leg(python, django)
        for django in classified("Framework :: Django")
        for python in classified("Programming Language :: Python")
        if _number(python) >= _number(FIRST_PYTHON[django])
    ]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def find_python(version: str) -> str | None:
    """The program of a Python version; None where it is not installed."""
    script = [str(ROOT / ".ci" / "python"), version]
    # PYTHON would be used for every version.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    found = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    return None if found == "python3" else found


def run_leg(leg: Leg, python: str, processes: str, arguments: list[str]) -> list[str]:
    """Install the package and run the tests; the cells of the table."""
    directory = ROOT / ".versions" / f"python{leg.python}-django{leg.django}"
    own = str(directory / "bin" / "python")
    if not Path(own).exists():
        subprocess.run([python, "-m", "venv", "--clear", str(directory)], check=True)
    install = [own, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", ".[test]"]
    subprocess.run([*install, f"Django~={leg.django}.0"], cwd=ROOT, check=True)
    tests = [own, "-m", "pytest", "-q", "-n", processes, "--dist", "loadgroup", *(arguments or TESTS)]
    began = time.monotonic()
    ran = subprocess.run(tests, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - began
    if ran.returncode:
        sys.stdout.write(ran.stdout)
    summary = ran.stdout.strip().rpartition("\n")[2]
    passed = re.search(r"(\d+) passed", summary)
    result = f"{passed[1]} passed" if passed and not ran.returncode else f"FAILED: {summary}"
    return [f"{leg.python} ({_version(own)})", *_versions(own), result, f"{seconds:.0f} s"]


def _version(python: str) -> str:
    return subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]


def _versions(python: str) -> list[str]:
    script = f"from importlib.metadata import version; print(*map(version, ('Django', *{SHOWN})))"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.split()


def table_of(rows: list[list[str]]) -> str:
    heading = ["Python", "Django", *SHOWN, "tests", "duration"]
    lines = [f"| {' | '.join(row)} |\n" for row in [heading, *rows]]
    return "".join([lines[0], f"|{'---|' * len(heading)}\n", *lines[1:]])


def write_table(table: str) -> None:
    """Replace the table and the date in the documentation."""
    page = ROOT / "docs" / "installation.md"
    today = f"{date.today():%-d %B %Y}"
    text = re.sub(r"^\| Python \| Django \|.*\n(\|.*\n)+", lambda _: table, page.read_text(), flags=re.MULTILINE)
    page.write_text(re.sub(r"on \d+ [A-Z][a-z]+ 20\d\d", f"on {today}", text))


def reason_not_to_write(only: list[str] | None, arguments: list[str], missing: Collection[str]) -> str | None:
    """Why the table would not be one of every combination and all its tests, and the remedy; None if it would."""
    if only:
        return "--write needs every combination: leave out --only"
    if arguments:
        return f"--write needs the usual tests: leave out {' '.join(arguments)}"
    if missing:
        return f"--write needs every Python: install {', '.join(sorted(missing, key=_number))}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="make test-versions")
    parser.add_argument("--processes", default="4")
    parser.add_argument("--only", action="append", help="a Python and a Django, such as 3.12-6.0")
    parser.add_argument("--write", action="store_true", help="put the table into docs/installation.md")
    options, arguments = parser.parse_known_args()
    legs = [leg for leg in all_legs() if not options.only or f"{leg.python}-{leg.django}" in options.only]
    pythons = {version: find_python(version) for version in {leg.python for leg in legs}}
    missing = {version for version, program in pythons.items() if program is None}
    if options.write and (reason := reason_not_to_write(options.only, arguments, missing)):
        parser.error(reason)
    rows = []
    for leg in legs:
        python = pythons[leg.python]
        if python is None:
            continue
        sys.stdout.write(f"Python {leg.python}, Django {leg.django}\n")
        sys.stdout.flush()
        rows.append(run_leg(leg, python, options.processes, arguments))
        sys.stdout.write(f"    {rows[-1][-2]} in {rows[-1][-1]}\n")
    sys.stdout.write(table_of(rows))
    for version in sorted(missing, key=_number):
        sys.stdout.write(f"Python {version} is not installed, so it was not tested.\n")
    has_failed = not rows or any("FAILED" in row[-2] for row in rows)
    if options.write and has_failed:
        parser.error("a combination has failed, so docs/installation.md is unchanged: correct it, then run this again")
    if options.write:
        write_table(table_of(rows))
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
