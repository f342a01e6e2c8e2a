"""A backend of Django's task framework with a worker command of its own, which is the process that is measured."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import FileTally, conduct, orders, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: How long the command may take to stop, in seconds.
STOP_WITHIN = 10.0


class DjangoSide:
    def __init__(self, given: dict[str, Any], directory: str) -> None:
        self.given = given
        self.tally = FileTally(str(Path(directory) / "tally"))
        names = ("connection", "apps", "backend", "threads")
        os.environ["BENCHMARK_PROJECT"] = json.dumps({name: given[name] for name in names} | {"tally": self.tally.path})
        os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)

    async def prepare(self) -> None:
        await asyncio.to_thread(self._fill)

    def _fill(self) -> None:
        import django
        from django.core.management import call_command
        from django.db import connection, transaction

        django.setup()
        call_command("migrate", verbosity=0)
        from project.tasks import nothing

        with transaction.atomic():
            for number in range(self.given["jobs"]):
                nothing.enqueue(number)
        connection.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "django", *self.given["command"], stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        try:
            yield
        finally:
            worker.terminate()
            try:
                await asyncio.wait_for(worker.wait(), STOP_WITHIN)
            except TimeoutError:
                worker.kill()
                await worker.wait()

    def report(self) -> dict[str, Any]:
        # The command's CPU time is not that of this process.
        return {"cpu": None}


def main() -> None:
    given = orders()
    with tempfile.TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        run(conduct(DjangoSide(given, directory), given["expected"]))


if __name__ == "__main__":
    main()
