"""A user's programs in real processes: a new interpreter on the suite's settings and servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]

SETUP = """
import asyncio
import django
import steady_queue
django.setup()
steady_queue.database = {alias!r}
from tests.shop.tasks import add, charge, greet
"""


def run_script(
    text: str, *, alias: str | None = None, code: int = 0, quiet: bool = True, timeout_seconds: float = 30
) -> str:
    """Run a program and return its output. It must end by itself, with `code`, and if that is 0 without any warning.

    `quiet` is false where the warnings are not Steady Queue's: asyncpg's when it is cancelled, Python's about Django.
    """
    source = (SETUP.format(alias=alias) if alias else "") + text
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
    )
    assert done.returncode == code, done.stderr
    assert code or not quiet or not done.stderr, done.stderr
    return done.stdout
