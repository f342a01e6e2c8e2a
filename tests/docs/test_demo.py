"""The examples run as a newcomer would run them: as scripts, from any directory, in a process of their own."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.docs.helpers import EXAMPLES, ROOT, environment, python

if TYPE_CHECKING:
    from pathlib import Path

MANAGE = EXAMPLES / "bakery" / "manage.py"

#: The demo on the database BAKERY_DATABASE, after {sabotage} of its parts.
SABOTAGED_DEMO = """
import sys
from uuid import uuid4
import django
from django.core.management import call_command

django.setup()
call_command("migrate", verbosity=0)
import show
from kitchen import day
from kitchen.ovens import Oven
from steady_queue.aio.worker.executor import Executor

{sabotage}
sys.exit(show.show())
"""

#: An id that no task belongs to, as if its task had been lost; a task that runs twice; ovens too small for the limit.
THREE_FAULTS = """
morning, run_async = day.morning, Executor.run_async

async def run_the_tasting_of_loaf_7_twice(self, running, *args):
    if running.claim.task_path == "kitchen.tasks.taste" and "[7]" in running.claim.arguments:
        await run_async(self, running, *args)
    return await run_async(self, running, *args)

day.morning = lambda: [*morning()[1:], str(uuid4())]
Executor.run_async = run_the_tasting_of_loaf_7_twice
Oven.ROOM = 1
"""


def sabotaged(sabotage: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return python(
        "-c",
        SABOTAGED_DEMO.format(sabotage=sabotage),
        directory=directory,
        PYTHONPATH=os.pathsep.join(map(str, (ROOT, EXAMPLES, EXAMPLES / "bakery"))),
        DJANGO_SETTINGS_MODULE="settings",
        BAKERY_DATABASE=str(directory / "bakery.sqlite3"),
    )


@pytest.mark.timeout(120)
def test_the_demo_runs_every_task_once_and_leaves_no_files(tmp_path: Path) -> None:
    demo = python(EXAMPLES / "demo.py", directory=tmp_path)

    assert (demo.returncode, demo.stderr) == (0, ""), demo.stdout
    rows = re.findall(r"^(\w+) +(loop|thread)? +(\d+) +(\d+|-)( +[\d,.]+ ms){3}$", demo.stdout, re.MULTILINE)
    assert [row[:4] for row in rows] == [
        ("knead", "thread", "40", "-"),
        ("print_label", "thread", "120", "-"),
        ("taste", "loop", "108", "12"),
        ("let_rise", "loop", "240", "-"),
        ("send_receipt", "loop", "240", "-"),
        ("bake", "loop", "120", "-"),
        ("deliver", "loop", "120", "-"),
        ("all", "", "988", "12"),
    ]
    progress = re.findall(r"^\S+ +([\d,]+) of 1,000 +\d+ running +[\d.]+ s$", demo.stdout, re.MULTILINE)
    assert 2 <= len(progress) <= 10
    assert progress[-1] == "1,000"
    assert "2 loaves per oven; maximum: brick 2, deck 2, steam 2" in demo.stdout
    assert "Connections  1 of the runtime, 1 of aenqueue();" in demo.stdout
    assert "A failure    taste(10): kitchen.tasks.BurntError" in demo.stdout
    assert "Proved: each of 1,000 tasks ran exactly once, and no limit was exceeded." in demo.stdout
    assert "\x1b" not in demo.stdout
    assert max(map(len, demo.stdout.splitlines())) <= 80
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(120)
def test_the_demo_fails_when_a_task_is_lost_or_runs_twice_or_a_limit_is_broken(tmp_path: Path) -> None:
    demo = sabotaged(THREE_FAULTS, tmp_path)

    assert demo.returncode == 1, demo.stderr
    assert "WRONG: of 1000 tasks 999 are in the database" in demo.stdout
    assert "WRONG: 1 tasks never ran" in demo.stdout
    assert "WRONG: 1 tasks ran twice" in demo.stdout
    assert "WRONG: an oven held too many loaves" in demo.stdout
    assert "Proved" not in demo.stdout


@pytest.mark.timeout(120)
def test_the_demo_gives_up_on_tasks_that_do_not_end(tmp_path: Path) -> None:
    demo = sabotaged("show.GIVE_UP_AFTER_SECONDS = 0.5", tmp_path)

    assert demo.returncode == 1, demo.stderr
    assert "Gave up after 0.5 s." in demo.stdout
    assert "WRONG: of 1000 tasks" in demo.stdout


@pytest.mark.timeout(120)
@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_progress_is_one_line_and_an_interrupt_ends_the_demo_cleanly(
    tmp_path: Path, no_color: str
) -> None:
    terminal, inside = pty.openpty()
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    demo = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(tmp_path, NO_COLOR=no_color, TERM="xterm"),
        stdin=inside,
        stdout=inside,
        stderr=subprocess.PIPE,
    )
    os.close(inside)
    try:
        shown = b""
        with suppress(OSError):  # a terminal raises it when its last writer has closed
            while part := os.read(terminal, 4096):
                if shown.count(b" running ") < 3 <= (shown + part).count(b" running "):
                    demo.send_signal(signal.SIGINT)
                shown += part
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
        os.close(terminal)

    assert (demo.returncode, errors) == (130, b"")
    assert (b"\x1b[32m" in shown, b"\x1b" in shown) == (not no_color, not no_color)
    *lines, last, _ = shown.decode().split("\r\n")
    assert last == "Stopped."
    moving = [line for line in lines if " running " in line]
    assert len(moving) == 1
    assert moving[0].count("\r") >= 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [("check", "--fail-level", "WARNING"), ("makemigrations", "--check", "--dry-run"), ("migrate",)]
)
def test_the_sample_project_is_a_sound_django_project(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = python(MANAGE, *command, directory=tmp_path, BAKERY_DATABASE=str(tmp_path / "bakery.sqlite3"))

    assert (done.returncode, done.stderr) == (0, "")
