"""The manage.py of a project in a directory of its own, and its commands."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.processes.scripts import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = {settings!r}
from django.core.management import execute_from_command_line
execute_from_command_line({argv})
"""
#: Longer than a command takes on a busy machine.
COMMAND_TIMEOUT_SECONDS = 50.0


def write_manage(directory: Path, settings: str = "settings", argv: str = "sys.argv") -> None:
    """Write a manage.py that uses these settings; `argv` is the expression for its command line."""
    (directory / "manage.py").write_text(MANAGE.format(settings=settings, argv=argv))


def manage(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the project, whether it succeeds or not."""
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_SECONDS,
    )
