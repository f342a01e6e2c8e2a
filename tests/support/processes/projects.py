"""A project in a directory of its own, with a manage.py and an app, on a database of the suite."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steady_queue.arguments import dumps
from tests.support.processes.commands import python
from tests.support.processes.manage import write_manage
from tests.support.processes.scripts import REPOSITORY
from tests.support.store.jobs import job
from tests.support.store.stores import SyncStore
from tests.support.wait import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.processes.commands import Command

SETTINGS = """
from datetime import timedelta
from tests.settings import *
import steady_queue
steady_queue.database = {alias!r}
steady_queue.shutdown_timeout = timedelta(seconds=20)
INSTALLED_APPS = [*INSTALLED_APPS, "garage"]
"""
TASKS = """
import asyncio, pathlib
from steady_queue import task

@task
async def wash():
    print("washed by {version}", flush=True)

@task
async def repair():
    print("began", flush=True)
    while not pathlib.Path({done!r}).exists():
        await asyncio.sleep(0.01)
    print("repaired by {version}", flush=True)
"""


class Project:
    def __init__(self, directory: Path, alias: str, argv: str = "sys.argv") -> None:
        self.directory = directory
        self.done = directory / "done"
        self.app = directory / "garage"
        self.app.mkdir()
        (self.app / "__init__.py").touch()
        (self.app / "settings.py").write_text(SETTINGS.format(alias=alias))
        write_manage(directory, "garage.settings", argv)
        self.write("version 1")
        self._alias = alias

    def write(self, version: str) -> None:
        """Write its tasks, which print their version."""
        (self.app / "tasks.py").write_text(TASKS.format(version=version, done=str(self.done)))

    async def enqueue(self, name: str) -> None:
        await in_thread(self._enqueue, f"garage.tasks.{name}")

    def _enqueue(self, path: str) -> None:
        SyncStore(self._alias).enqueue(job(task_path=path, arguments=dumps((), {})))


@contextmanager
def program(*words: str, cwd: Path = REPOSITORY, environ: dict[str, str] | None = None) -> Iterator[Command]:
    """A program in a process of its own, which is killed if the test has not ended it."""
    environ = {
        **{name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        "PYTHONPATH": str(REPOSITORY),
        # Files change within one second, which is the resolution of compiled files.
        "PYTHONDONTWRITEBYTECODE": "1",
        **(environ or {}),
    }
    with python(*words, cwd=cwd, environ=environ) as process:
        yield process
