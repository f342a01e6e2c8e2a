"""The processes of a site: a web server with the admin, and a worker, both as a user starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from tests.browser.conditions import wait_for
from tests.support.databases.aliases import queue_in
from tests.support.processes.printing_process import HOST, PrintingProcess
from tests.support.processes.scripts import REPOSITORY
from tests.support.servers.host import claim_port
from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = "tests.browser.project.settings"
#: How many ports are tried: a program that knows nothing of claims may be faster.
PORTS_TRIED = 5


class Site:
    """A web server and a worker that run. `alias` is the database of the queue."""

    def __init__(self, alias: str, port: int, server: PrintingProcess, worker: PrintingProcess) -> None:
        self.alias = alias
        self.address = f"http://{HOST}:{port}"
        self.server = server
        self.worker = worker

    @property
    def printed(self) -> str:
        """The output of both, for the report of a failure."""
        return f"The web server printed:\n{self.server.printed}\nThe worker printed:\n{self.worker.printed}"


@contextmanager
def running_site(alias: str) -> Iterator[Site]:
    """A site whose queue is in this database; its rows are checked and deleted at the end."""
    with queue_in(alias), ExitStack() as stack:
        worker = stack.enter_context(running(alias, "steady_queue", "--async"))
        port, server = start_server(stack, alias)
        wait_for(lambda: has_started(worker), "the start of the worker")
        yield Site(alias, port, server, worker)


def start_server(stack: ExitStack, alias: str, environ: dict[str, str] | None = None) -> tuple[int, PrintingProcess]:
    """A web server that listens, until the end of the stack, and its port."""
    for _ in range(PORTS_TRIED):
        port = stack.enter_context(claim_port()).port
        command = ("runserver", "--insecure", "--noreload", "--skip-checks", f"{HOST}:{port}")
        server = stack.enter_context(running(alias, *command, environ=environ))
        if answers(server, port):
            return port, server
    raise AssertionError(f"no port was free: {server.printed}")


@contextmanager
def running(alias: str, *command: str, environ: dict[str, str] | None = None) -> Iterator[PrintingProcess]:
    """A command of the project, or of the one that the environment names, in a process that is stopped at the end."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": SETTINGS,
        "DJANGO_RUNSERVER_HIDE_WARNING": "true",
        "STEADY_QUEUE_BROWSER_DATABASE": alias,
        **(environ or {}),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "django", *command],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        printing = PrintingProcess(process)
        try:
            yield printing
        finally:
            printing.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            printing.wait(WAIT_TIMEOUT_SECONDS)


def answers(server: PrintingProcess, port: int) -> bool:
    """Wait until the server listens; False if it has ended because another process has its port."""

    def listens() -> bool:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return True
        return False

    wait_for(lambda: server.has_ended or listens(), "the web server")
    if not server.has_ended:
        return True
    assert "in use" in server.printed, server.printed
    return False


def has_started(worker: PrintingProcess) -> bool:
    """Whether the process of the worker is in the database."""
    from steady_queue.models import Process  # not before Django is set up

    assert not worker.has_ended, worker.printed
    return Process.objects.exists()
