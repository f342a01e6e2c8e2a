"""Which Python the environments of the Makefile are made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "python"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory to use as the PATH, with Pythons 3.11 and 3.13."""
    for version in ("3.11", "3.13"):
        python = tmp_path / f"python{version}"
        python.write_text("#!/bin/sh\nexit 0\n")
        python.chmod(0o755)
    return tmp_path


def chosen(which: str, path: Path, **environment: str) -> str:
    command = [str(SCRIPT), which]
    done = subprocess.run(command, env={"PATH": str(path), **environment}, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(("which", "found"), [("newest", "python3.13"), ("oldest", "python3.11")])
def test_a_python_that_the_user_names_is_used_even_if_others_are_found(path: Path, which: str, found: str) -> None:
    assert chosen(which, path) == found
    assert chosen(which, path, PYTHON="") == found
    assert chosen(which, path, PYTHON="python3.12") == "python3.12"


def test_one_version_is_found_by_its_number(path: Path) -> None:
    assert chosen("3.11", path) == "python3.11"
    assert chosen("3.12", path) == "python3"


@pytest.mark.parametrize("which", ["newest", "oldest"])
def test_where_none_is_found_it_is_python3(tmp_path: Path, which: str) -> None:
    assert chosen(which, tmp_path) == "python3"
