"""What the wheel and the sdist contain. `make dist` runs these tests on the files that it has built."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from email.parser import Parser
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

import steady_queue
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("release files")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist: those of `make dist`, or built now."""
    given = os.environ.get("STEADY_QUEUE_DIST")
    directory = ROOT / given if given else tmp_path_factory.mktemp("files")
    if not given:
        build = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=50)
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    return wheel, sdist


def test_the_names_have_the_distribution_and_the_version(files: tuple[Path, Path]) -> None:
    stem = f"steady_queue_aio-{steady_queue.__version__}"

    assert [file.name for file in files] == [f"{stem}-py3-none-any.whl", f"{stem}.tar.gz"]


def test_the_wheel_has_every_file_of_the_package_and_nothing_else(files: tuple[Path, Path]) -> None:
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "steady_queue").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(files[0]) as wheel:
        names = set(wheel.namelist())
    info = f"steady_queue_aio-{steady_queue.__version__}.dist-info"

    assert {name for name in names if not name.startswith(info)} == package
    assert {"steady_queue/py.typed", "steady_queue/migrations/0001_initial.py"} <= names
    assert f"{info}/licenses/LICENSE" in names


def test_the_metadata_names_the_readme_the_license_and_the_drivers(files: tuple[Path, Path]) -> None:
    with ZipFile(files[0]) as wheel:
        (path,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(wheel.read(path).decode())

    assert metadata["Name"] == "steady-queue-aio"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {"postgres", "mysql", "speed"} <= set(metadata.get_all("Provides-Extra", []))
    assert "five commands" in str(metadata.get_payload()).lower()


def test_the_sdist_has_what_the_tests_and_the_documentation_need(files: tuple[Path, Path]) -> None:
    with tarfile.open(files[1]) as sdist:
        members = {member.name.partition("/")[2]: member for member in sdist.getmembers()}

    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "pyproject.toml", "tests/conftest.py"} <= members.keys()
    assert {"docs/index.md", "examples/demo.py", "benchmarks/__init__.py", "steady_queue/py.typed"} <= members.keys()
    for script in ("packages", "python", "run"):
        assert members[f".ci/{script}"].mode & 0o111
    assert [name for name in members if name.startswith((".venv", ".versions", "dist/", ".git/"))] == []
