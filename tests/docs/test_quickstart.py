"""The quickstart works as it is written: its files, its shell session and its commands."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import django

from tests.docs.helpers import environment
from tests.docs.pages import page

if TYPE_CHECKING:
    from pathlib import Path

QUICKSTART = page("docs/quickstart.md")
#: Runs the sessions of the file in order, with a worker between the first two, and prints what differs.
SESSION = """
import doctest, subprocess, sys
import django
django.setup()
parser, runner, shared = doctest.DocTestParser(), doctest.DocTestRunner(), {}
for number, text in enumerate(open("session").read().split("---")):
    if number == 1:
        worker = [sys.executable, "manage.py", "steady_queue", "--async", "--drain"]
        subprocess.run(worker, check=True, timeout=60)
    test = parser.get_doctest(text, {}, f"session {number}", "quickstart.md", 0)
    test.globs = shared
    runner.run(test, clear_globs=False)
sys.exit(runner.summarize().failed)
"""


def test_the_quickstart_works_as_written(tmp_path: Path) -> None:
    def run(*command: str, **env: str) -> str:
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment(tmp_path, **env),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    run("-m", "django", "startproject", "project", ".")
    (tmp_path / "shop").mkdir()
    for block in QUICKSTART.blocks("python"):
        first_line = block.splitlines()[0]
        with (tmp_path / first_line.removeprefix("# ")).open("a") as file:
            file.write(f"\n{block}")
    if django.VERSION < (6,):
        with (tmp_path / "project" / "settings.py").open("a") as file:
            file.write('INSTALLED_APPS += ["django_tasks"]\n')
    sessions = QUICKSTART.blocks("pycon")
    assert len(sessions) == 2
    (tmp_path / "session").write_text("---".join(sessions))

    run("manage.py", "migrate")
    run("manage.py", "check", "--fail-level", "WARNING")
    run("-c", SESSION, DJANGO_SETTINGS_MODULE="project.settings")
