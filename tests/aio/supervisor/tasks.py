"""Tasks that append their starts and ends to a file, which outlives any fault of process and database."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from steady_queue import task
from steady_queue.concurrency import limits_concurrency

#: Setup of a manage.py that imports these tasks: they belong to no installed app.
IMPORT_TASKS = "import django\ndjango.setup()\nimport tests.aio.supervisor.tasks"


def note(path: str, word: str, name: str) -> None:
    """One line in one write: processes do not disturb each other."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{word} {name}\n".encode())
    finally:
        os.close(descriptor)


@task
async def rests(path: str, name: str, seconds: float) -> float:
    """Return the time of its machine."""
    note(path, "began", name)
    await asyncio.sleep(seconds)
    note(path, "ended", name)
    return time.time()


@task
def works(path: str, name: str, seconds: float) -> None:
    note(path, "began", name)
    time.sleep(seconds)
    note(path, "ended", name)


@task
async def awaits(path: str, name: str, file: str) -> str:
    """End when the file exists."""
    note(path, "began", name)
    while not Path(file).exists():  # noqa: ASYNC110, ASYNC240, the test is another process
        await asyncio.sleep(0.01)
    note(path, "ended", name)
    return "done"


@task
def blocks(path: str, name: str, file: str) -> str:
    """The same in a thread."""
    note(path, "began", name)
    while not Path(file).exists():
        time.sleep(0.01)
    note(path, "ended", name)
    return "done"


@limits_concurrency(key="one")
@task
def blocks_alone(path: str, name: str, file: str) -> str:
    """The same, one at a time."""
    return str(blocks.func(path, name, file))


@limits_concurrency(key="one")
@task
async def awaits_alone(path: str, name: str, file: str) -> str:
    """The same in the loop."""
    return str(await awaits.func(path, name, file))
