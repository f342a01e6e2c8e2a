"""The worker command of a backend of Django's task framework. The command is the process that is measured."""

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

from harness import FileStartLog, read_options, run, run_worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STOP_TIMEOUT_SECONDS = 10.0


class DjangoWorker:
    def __init__(self, options: dict[str, Any], directory: str) -> None:
        self.options = options
        self.start_log = FileStartLog(str(Path(directory) / "starts"))
        names = ("connection", "apps", "backend", "threads")
        project = {name: options[name] for name in names} | {"start_log": self.start_log.path}
        os.environ["BENCHMARK_PROJECT"] = json.dumps(project)
        os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
        os.environ["PYTHONPATH"] = str(Path(__file__).parent)

    async def prepare(self) -> None:
        await asyncio.to_thread(self._store_jobs)

    def _store_jobs(self) -> None:
        import django
        from django.core.management import call_command
        from django.db import connection, transaction

        django.setup()
        call_command("migrate", verbosity=0)
        from project.tasks import noop

        with transaction.atomic():
            for number in range(self.options["stored_jobs"]):
                noop.enqueue(number)
        connection.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "django", *self.options["command"], stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        try:
            yield
        finally:
            worker.terminate()
            try:
                await asyncio.wait_for(worker.wait(), STOP_TIMEOUT_SECONDS)
            except TimeoutError:
                worker.kill()
                await worker.wait()

    def report(self) -> dict[str, Any]:
        # The command is another process, so this process does not know its CPU time.
        return {"cpu": None}


def main() -> None:
    options = read_options()
    with tempfile.TemporaryDirectory(prefix="steady-queue-benchmark-") as directory:
        run(run_worker(DjangoWorker(options, directory), options["expected"]))


if __name__ == "__main__":
    main()
