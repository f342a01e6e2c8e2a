"""The ASGI servers: their command lines, what they do with the lifespan, and how they exit after TERM."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from tests.support.processes.printing_process import HOST, PrintingProcess, fetch
from tests.support.servers.host import claim_port
from tests.support.wait import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.servers.fresh_project import FreshProject

#: Starts and stops of servers: several interpreters are started at once, on a machine that runs other tests.
SERVER_TIMEOUT_SECONDS = 60.0
APPLICATION = "site_of_mine.asgi:application"


class AsgiServer(NamedTuple):
    """A server: its command line without the address, the options that have it, and its exit status after TERM."""

    name: str
    command: tuple[str, ...]
    address: tuple[str, ...]
    workers: str
    #: The exit status after TERM, with one process and with several.
    statuses: tuple[int, int] = (0, 0)
    has_lifespan: bool = True

    def words(self, port: int, workers: int) -> list[str]:
        address = [word.format(host=HOST, port=port) for word in self.address]
        return [*self.command, *address, *([self.workers, str(workers)] if workers > 1 else [])]


_HOST_AND_PORT = ("--host", "{host}", "--port", "{port}")
_BIND = ("--bind", "{host}:{port}")
SERVERS = (
    AsgiServer("uvicorn", ("uvicorn", APPLICATION), _HOST_AND_PORT, "--workers", (-signal.SIGTERM, 0)),
    AsgiServer("hypercorn", ("hypercorn", APPLICATION), _BIND, "--workers"),
    AsgiServer(
        "gunicorn-uvicorn",
        ("gunicorn", APPLICATION, "--worker-class", "uvicorn_worker.UvicornWorker"),
        _BIND,
        "--workers",
    ),
    AsgiServer("gunicorn-asgi", ("gunicorn", APPLICATION, "--worker-class", "asgi"), _BIND, "--workers"),
    AsgiServer("granian", ("granian", "--interface", "asgi", APPLICATION), _HOST_AND_PORT, "--workers"),
    AsgiServer("daphne", ("daphne", APPLICATION), ("-b", "{host}", "-p", "{port}"), "", has_lifespan=False),
)


class Running(PrintingProcess):
    """A server that runs: what it prints, and requests to it."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        super().__init__(process)
        self.port = port

    async def get(self, path: str) -> str | None:
        """The body of a response with status 200; None if there was no such response."""
        try:
            status, body = await fetch(self.port, path, version="1.1", timeout_seconds=SERVER_TIMEOUT_SECONDS)
        except OSError:
            return None
        return body if status == 200 else None

    async def is_serving(self) -> bool:
        assert self.process.poll() is None, f"it ended by itself: {self.printed}"
        return await self.get("/hello") is not None

    async def ended(self) -> int:
        """Wait until it has ended and its output was read; return its exit status."""
        return await asyncio.to_thread(self.wait, SERVER_TIMEOUT_SECONDS)


@asynccontextmanager
async def serving(
    server: AsgiServer, project: FreshProject, *, workers: int = 1, **environment: str
) -> AsyncIterator[Running]:
    """A server that answers requests; it is killed, with its processes, if the block has not ended it."""
    with claim_port() as claim:
        program, *words = server.words(claim.port, workers)
        with subprocess.Popen(  # noqa: ASYNC220, it takes a moment
            [project.installation.programs / program, *words],
            cwd=project.directory,
            env={**project.variables, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            running = Running(process, claim.port)
            try:
                await until(running.is_serving, f"{server.name} does not answer", SERVER_TIMEOUT_SECONDS)
                yield running
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await running.ended()
