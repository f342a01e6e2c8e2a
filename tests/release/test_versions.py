"""The classifiers, the table of tested versions in the documentation, and the legs of `make test-versions`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import steady_queue
from tests.docs.pages import ROOT, page, tables
from tests.release.versions import SHOWN, all_legs, classified, reason_not_to_write

INSTALLATION = page("docs/installation.md")


def test_the_documentation_lists_every_combination_of_the_classifiers_with_its_result() -> None:
    section = INSTALLATION.section("Tested versions")
    rows = tables(section, "Python")

    listed = [(row[0].split()[0], ".".join(row[1].split(".")[:2])) for row in rows]
    assert listed == [(leg.python, leg.django) for leg in all_legs()]
    assert all(len(row) == 2 + len(SHOWN) + 2 for row in rows)
    assert all(re.fullmatch(r"\d+ passed", row[-2]) for row in rows)
    assert re.search(r"on \d+ [A-Z][a-z]+ 20\d\d", section), "the section has no date"


def test_the_oldest_versions_are_those_that_the_package_requires() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["requires-python"] == f">={classified('Programming Language :: Python')[0]}"
    assert f"Django>={classified('Framework :: Django')[0]}" in project["dependencies"]
    assert project["name"] == "steady-queue-aio"
    assert re.fullmatch(r"\d+\.\d+\.\d+", steady_queue.__version__)


def test_each_python_works_with_a_django() -> None:
    legs = all_legs()

    assert {leg.python for leg in legs} == set(classified("Programming Language :: Python"))
    assert {leg.django for leg in legs} == set(classified("Framework :: Django"))
    assert not [leg for leg in legs if leg.python == "3.11" and leg.django.startswith("6")]


def test_a_part_of_the_table_is_not_written() -> None:
    assert reason_not_to_write(None, [], set()) is None
    assert reason_not_to_write(["3.12-6.0"], [], set()) == "--write needs every combination: leave out --only"
    assert reason_not_to_write(None, ["tests/store"], set()) == "--write needs the usual tests: leave out tests/store"
    assert reason_not_to_write(None, [], {"3.12", "3.9"}) == "--write needs every Python: install 3.9, 3.12"


def test_the_command_refuses_to_write_a_part_of_the_table() -> None:
    before = INSTALLATION.file.read_text()
    command = [sys.executable, "-m", "tests.release.versions", "--write", "--only", "3.12-6.0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)

    assert (ran.returncode, "leave out --only" in ran.stderr) == (2, True), ran.stdout + ran.stderr
    assert INSTALLATION.file.read_text() == before
