"""Tasks that note when they run, in a file and by the clock that all processes of a machine share.

They belong to no installed app's `tasks`: the processes that run them import this.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING

from steady_queue import task

if TYPE_CHECKING:
    from pathlib import Path


@task
def notes(path: str) -> None:
    _note(path)


@task
def blocks(path: str) -> None:
    """Fills a thread until its process ends."""
    _note(path)
    threading.Event().wait()


@task
def naps(path: str, seconds: float) -> None:
    time.sleep(seconds)
    _note(path)


@task
async def rests(path: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    _note(path)


def _note(path: str) -> None:
    # One short write, which others do not tear apart.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{time.monotonic_ns()}\n".encode())
    finally:
        os.close(descriptor)


def noted(path: Path) -> list[float]:
    """The moments in a file, in seconds."""
    return [int(line) / 1e9 for line in path.read_text().splitlines()] if path.exists() else []
