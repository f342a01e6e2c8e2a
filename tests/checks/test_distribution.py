"""The other distribution with the import name `steady_queue`: reported wherever this code can still run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest
from django.core.checks import Error

import steady_queue
from steady_queue.checks.distribution import find_other_version
from steady_queue.checks.preflight import at_start, examine
from steady_queue.checks.project import check_project
from steady_queue.configuration import Options
from steady_queue.distribution import is_mixed
from tests.docs.helpers import environment

REINSTALL = "pip uninstall -y steady-queue steady-queue-aio, then: pip install steady-queue-aio"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the path in which the metadata of the other distribution is."""
    info = tmp_path / "steady_queue-0.3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: steady-queue\nVersion: 0.3.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_other_distribution_is_an_error_of_the_checks_and_of_the_command(other: Path, database: str) -> None:
    (other / "steady_queue").mkdir()

    (message,) = [message for message in check_project() if message.id == "steady_queue.E012"]
    assert isinstance(message, Error)
    assert "steady-queue 0.3.0 is installed as well as steady-queue-aio" in message.msg
    assert REINSTALL in str(message.hint)
    for result in (at_start(Options()), examine()):
        assert [text for text in result.errors if REINSTALL in text]


def test_metadata_without_a_package_is_no_problem(other: Path) -> None:
    assert find_other_version() is None


def test_the_environment_of_the_tests_has_this_distribution_only() -> None:
    assert find_other_version() is None
    assert not is_mixed()


def test_a_project_with_the_files_of_both_is_refused_with_the_commands_to_run(tmp_path: Path) -> None:
    copytree(Path(steady_queue.__file__).parent, tmp_path / "steady_queue")
    (tmp_path / "steady_queue" / "queue_selector.py").touch()
    # The admin app imports the module `admin` of each app first, and that of the other distribution cannot be imported.
    (tmp_path / "steady_queue" / "admin.py").write_text("from .models import Queue\n")
    settings = (
        "INSTALLED_APPS=['django.contrib.contenttypes', 'django.contrib.auth', 'django.contrib.admin', 'steady_queue']"
    )
    script = f"import django; from django.conf import settings; settings.configure({settings}); django.setup()"

    ran = run(script, tmp_path)
    assert "ImproperlyConfigured: the directory of the package steady_queue has files of two" in ran.stderr
    assert REINSTALL in ran.stderr


@pytest.mark.parametrize("is_mixture", [True, False])
def test_names_of_the_other_distribution_are_explained(tmp_path: Path, is_mixture: bool) -> None:
    copytree(Path(steady_queue.__file__).parent, tmp_path / "steady_queue")
    if is_mixture:
        (tmp_path / "steady_queue" / "queue_selector.py").touch()

    ran = run("from steady_queue.arguments import Arguments", tmp_path)
    assert "ImportError: steady_queue.arguments" in ran.stderr
    assert (REINSTALL if is_mixture else "then: pip install steady-queue") in ran.stderr


def test_a_model_of_the_other_distribution_is_explained() -> None:
    with pytest.raises(ImportError, match=r"'Queue' belongs to steady-queue, .* use steady_queue\.queues\.Queue, or"):
        from steady_queue.models import Queue  # noqa: F401


def test_other_missing_names_are_what_python_says() -> None:
    for name in ("steady_queue.models", "steady_queue.arguments"):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            sys.modules[name].nothing  # noqa: B018


def run(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=directory,
        env=environment(directory, PYTHONPATH=str(directory)),
        capture_output=True,
        text=True,
        timeout=60,
    )
