"""Runs Python as a user of the examples and of the documentation does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

EXAMPLES = ROOT / "examples"


def environment(directory: Path, **env: str) -> dict[str, str]:
    """What a user's environment has, and the package found."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DJANGO_", "STEADY_QUEUE_"))}
    return inherited | {"PYTHONPATH": str(ROOT), "TMPDIR": str(directory), **env}


def python(*args: str | Path, directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run Python in an empty directory."""
    return subprocess.run(
        [sys.executable, *map(str, args)],
        cwd=directory,
        env=environment(directory, **env),
        capture_output=True,
        text=True,
        timeout=100,
    )
