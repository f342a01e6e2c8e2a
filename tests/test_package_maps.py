"""The docstring of each package is its map: it names every module and every package inside."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import steady_queue

ROOT = Path(steady_queue.__file__).parent
#: Django's own names for what is inside.
WITHOUT_MAP = {ROOT / "migrations"}
PACKAGES = sorted({path.parent for path in ROOT.rglob("__init__.py")} - WITHOUT_MAP)


def names_inside(package: Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_the_docstring_of_a_package_names_everything_inside(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    assert sorted(name for name in names_inside(package) if not re.search(rf"\b{name}\b", text)) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_the_docstring_of_a_package_names_no_module_that_does_not_exist(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = set(re.findall(r"^\s+(?:\w+/)*(\w+)\.py\b", text, flags=re.MULTILINE))
    assert sorted(named - {path.stem for path in package.rglob("*.py")}) == []
