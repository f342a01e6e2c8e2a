"""The page about the architecture names every module, and only files and functions that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "steady_queue"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TREE = PAGE.split("```text\nsteady_queue/\n")[1].split("```")[0]
WALKS = PAGE.split("\n## The path of a task\n")[1]
FILES = sorted(set(re.findall(r"`([\w/]+/\w+\.py)`", WALKS)))
#: The file and the function of each row of a walk that names both.
FUNCTIONS = sorted(set(re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| `(\w+)` \|", WALKS, re.MULTILINE)))
#: The page describes these packages without naming their modules.
UNNAMED = ("commands", "migrations", "models")


def test_the_tree_names_each_module() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if file.parent.name not in UNNAMED]
    named = set(re.findall(r"\w+", TREE))

    assert sorted({file.stem for file in files} - named) == []


def test_the_tree_names_no_other_module() -> None:
    known = {file.stem for file in PACKAGE.rglob("*.py")} | {file.name for file in PACKAGE.rglob("*") if file.is_dir()}
    # Of three columns, the last has the modules: package, purpose, modules.
    columns = [re.split(r"\s{2,}", line.strip()) for line in TREE.splitlines()]
    modules = {name for column in columns if len(column) != 2 for name in column[-1].split()}

    assert len(modules) > 90
    assert sorted(name for name in modules if name.rstrip("/") not in known) == []


@pytest.mark.parametrize("path", FILES)
def test_each_file_of_a_walk_exists(path: str) -> None:
    assert (PACKAGE / path).is_file()


@pytest.mark.parametrize(("path", "function"), FUNCTIONS)
def test_each_function_of_a_walk_is_in_its_file(path: str, function: str) -> None:
    assert re.search(rf"\b(def|class) {function}\b", (PACKAGE / path).read_text())
