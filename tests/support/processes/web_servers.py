"""Web servers in real processes: uvicorn with the application of tests.asgi.web_application."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from tests.support.processes.printing_process import HOST, PrintingProcess, fetch
from tests.support.processes.scripts import REPOSITORY
from tests.support.wait import WAIT_TIMEOUT_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: What uvicorn prints when the lifespan's startup is complete, and where it listens.
STARTED = "Application startup complete."
LISTENS = re.compile(r"running on http://127\.0\.0\.1:(\d+)")


class Server(PrintingProcess):
    """A server of one or several processes: all that they print, and where they listen."""

    @property
    def port(self) -> int:
        found = LISTENS.search(self.printed)
        assert found is not None, self.printed
        return int(found[1])

    async def prints(self, text: str, times: int = 1, timeout_seconds: float = WAIT_TIMEOUT_SECONDS) -> None:
        """Wait until it has printed this text so often."""

        def has_printed() -> bool:
            has_ended = self.has_ended
            is_printed = self.printed.count(text) >= times
            assert is_printed or not has_ended, f"it ended by itself: {self.printed}"
            return is_printed

        await until(has_printed, f"{text!r} was not printed", timeout_seconds)

    async def get(self, path: str) -> tuple[int, str]:
        """The status and the body of a response; every request has its own connection."""
        return await fetch(self.port, path, version="1.0", timeout_seconds=WAIT_TIMEOUT_SECONDS)

    async def ended(self) -> int:
        """Wait until it has ended and its output was read; return its exit status."""
        return await asyncio.to_thread(self.wait, WAIT_TIMEOUT_SECONDS)


@asynccontextmanager
async def serving(
    *arguments: str, application: str, workers: int = 1, answer_within_seconds: int = 60, **environment: str
) -> AsyncIterator[Server]:
    """A server that has started; it is killed, with its workers, if the block has not ended it.

    `answer_within_seconds`: how long the parent of several workers waits for the answer of one that it asks whether it
    is alive, twice a second. For one that dies between the question and the answer it waits so long in vain.
    """
    command = [sys.executable, "-W", "error", "-m", "uvicorn", application, f"--host={HOST}", "--port=0"]
    # The only sign of life that its parent asks of a worker; on a busy machine it may come late.
    health = f"--timeout-worker-healthcheck={answer_within_seconds}"
    several = [f"--workers={workers}", health] if workers > 1 else []
    with subprocess.Popen(  # noqa: ASYNC220, it takes a moment
        [*command, "--no-access-log", *several, *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        server = Server(process)
        try:
            await server.prints("Uvicorn running on")
            if "--lifespan=off" not in arguments:
                await server.prints(STARTED, times=workers)
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await server.ended()
