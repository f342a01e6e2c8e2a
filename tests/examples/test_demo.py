"""The examples run as a newcomer would run them: as scripts, from any directory, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
MANAGE = EXAMPLES / "bakery" / "manage.py"

#: The demo with one id that no task belongs to, as if a task had been lost.
LOSING_DEMO = """
import sys
from uuid import uuid4
import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)
import show
from kitchen import day

morning = day.morning
day.morning = lambda: [*morning()[1:], str(uuid4())]
sys.exit(show.show())
"""


def python(*args: str | Path, directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in an empty directory, with what a user's environment has, and the package found."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DJANGO_", "STEADY_QUEUE_"))}
    inherited |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory), **env}
    return subprocess.run(
        [sys.executable, *map(str, args)], cwd=directory, env=inherited, capture_output=True, text=True, timeout=100
    )


@pytest.mark.timeout(120)
def test_the_demo_runs_every_task_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = python(EXAMPLES / "demo.py", directory=tmp_path)

    assert (demo.returncode, demo.stderr) == (0, ""), demo.stdout
    rows = re.findall(r"^(\w+) +(loop|thread)? +(\d+) +(\d+|-)( +[\d,]+ ms){3}$", demo.stdout, re.MULTILINE)
    assert [row[:4] for row in rows] == [
        ("print_label", "thread", "40", "-"),
        ("send_receipt", "loop", "200", "-"),
        ("knead", "thread", "60", "-"),
        ("let_rise", "loop", "60", "-"),
        ("bake", "loop", "60", "-"),
        ("taste", "loop", "54", "6"),
        ("deliver", "loop", "5", "-"),
        ("all", "", "479", "6"),
    ]
    assert "485 of 485" in demo.stdout
    assert "the most at once: brick 2, deck 2, steam 2" in demo.stdout
    assert "Connections  2 of the queue's own" in demo.stdout
    assert "A failure    taste(10): kitchen.tasks.BurntError" in demo.stdout
    assert "Nothing was lost: 485 tasks were enqueued, each ran once." in demo.stdout
    assert max(map(len, demo.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(120)
def test_the_demo_fails_when_a_task_is_lost(tmp_path: Path) -> None:
    demo = python(
        "-c",
        LOSING_DEMO,
        directory=tmp_path,
        PYTHONPATH=os.pathsep.join(map(str, (ROOT, EXAMPLES, EXAMPLES / "bakery"))),
        DJANGO_SETTINGS_MODULE="settings",
        BAKERY_DATABASE=str(tmp_path / "bakery.sqlite3"),
    )

    assert demo.returncode == 1, demo.stderr
    assert "WRONG: of 485 tasks 484 are in the database" in demo.stdout
    assert "Nothing was lost" not in demo.stdout


@pytest.mark.parametrize(
    "command", [("check", "--fail-level", "WARNING"), ("makemigrations", "--check", "--dry-run"), ("migrate",)]
)
def test_the_sample_project_is_a_sound_django_project(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = python(MANAGE, *command, directory=tmp_path, BAKERY_DATABASE=str(tmp_path / "bakery.sqlite3"))

    assert (done.returncode, done.stderr) == (0, "")
