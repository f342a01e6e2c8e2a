"""Tasks that write the time at which they run into a file, by the clock that all processes of a machine share.

They are not in the `tasks` module of an installed app: the processes that run them import this module.
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
def write_time(path: str) -> None:
    _write_time(path)


@task
def block_thread(path: str) -> None:
    """Write the time, and occupy a thread until the process ends."""
    _write_time(path)
    threading.Event().wait()


@task
def sync_sleep(path: str, seconds: float) -> None:
    time.sleep(seconds)
    _write_time(path)


@task
async def async_sleep(path: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    _write_time(path)


def _write_time(path: str) -> None:
    # One short write, which is atomic.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{time.monotonic_ns()}\n".encode())
    finally:
        os.close(descriptor)


def read_times(path: Path) -> list[float]:
    """The times in a file, in seconds."""
    return [int(line) / 1e9 for line in path.read_text().splitlines()] if path.exists() else []
