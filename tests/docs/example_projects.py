"""An example project, started as its make target starts it, and used as a browser would."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.docs.helpers import EXAMPLES, environment
from tests.support.processes.printing_process import HOST, PrintingProcess
from tests.support.servers.host import claim_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds: longer than any wait takes, also on a busy machine.
WAIT_TIMEOUT_SECONDS = 60.0
#: How many ports are tried.
PORTS_TRIED = 5


class Project(PrintingProcess):
    """A project that runs: what it prints, its pages and its database."""

    def __init__(self, process: subprocess.Popen[str], port: int, database: Path) -> None:
        super().__init__(process)
        self.port = port
        self.database = database
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when the condition holds; fail when it does not in time, or when the project has ended."""
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while not condition():
            assert self.process.poll() is None, f"it ended by itself: {self.printed}"
            assert time.monotonic() < deadline, f"waited in vain: {what}; {self.printed}"
            time.sleep(0.05)

    def serves(self) -> bool:
        """Whether it prints its address; False when it has exited because another process listens there."""
        line = f"Open {self.address} in a browser"
        self.until(lambda: line in self.printed or self.process.poll() is not None, "the address")
        if self.process.poll() is None:
            return True
        self.ended()
        assert re.search("in use", self.printed), f"it ended by itself: {self.printed}"
        return False

    def get(self, path: str) -> str:
        with self._opener.open(urllib.parse.urljoin(self.address, path), timeout=WAIT_TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode())

    def post(self, **fields: str) -> str:
        """Send the form on the first page, with the token that it holds; the path that it leads to."""
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get("/"))
        return self.send(csrfmiddlewaretoken=token, **fields)

    def send(self, **fields: str) -> str:
        """Send exactly this request."""
        return self._send(self.address, fields)

    def log_in(self) -> str:
        """Log in to the admin as the terminal says; the path of the dashboard."""
        (dashboard,) = re.findall(r"^The dashboard is at (\S+)$", self.printed, re.MULTILINE)
        ((name, password),) = re.findall(r"^Log in as (\w+) with the password (\S+)$", self.printed, re.MULTILINE)
        (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', self.get(dashboard))
        login = f"{self.address}admin/login/?next={urllib.parse.urlsplit(dashboard).path}"
        return self._send(login, {"csrfmiddlewaretoken": token, "username": name, "password": password})

    def _send(self, url: str, fields: dict[str, str]) -> str:
        data = urllib.parse.urlencode(fields).encode()
        with self._opener.open(url, data, timeout=WAIT_TIMEOUT_SECONDS) as answer:
            return str(urllib.parse.urlsplit(answer.url).path)

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """The Server-Sent Events of a page, as they come."""
        with self._opener.open(urllib.parse.urljoin(self.address, path), timeout=WAIT_TIMEOUT_SECONDS) as answer:
            assert answer.headers["Content-Type"] == "text/event-stream"
            for line in answer:
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(statement).fetchall()

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit status, when it has ended and all that it printed was read."""
        return self.wait(WAIT_TIMEOUT_SECONDS)

    def running(self) -> dict[int, str]:
        """Its processes with their command lines: all that belong to its session and have not ended."""
        found = {}
        for directory in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, _, _, session, *_ = (directory / "stat").read_text().rpartition(")")[2].split()
                if int(session) == self.process.pid and state != "Z":
                    found[int(directory.name)] = (directory / "cmdline").read_text().replace("\0", " ")
        return found


@contextmanager
def started(name: str, directory: Path) -> Iterator[Project]:
    """A project on a new database and a free port, that answers; it is killed if the block has not ended it."""
    with ExitStack() as stack:
        for _ in range(PORTS_TRIED):
            claim = stack.enter_context(claim_port())
            project = stack.enter_context(_launched(name, directory, claim.port))
            if project.serves():
                yield project
                return
        raise AssertionError(f"no port was free: {project.printed}")


@contextmanager
def _launched(name: str, directory: Path, port: int) -> Iterator[Project]:
    database = directory / f"{name}.sqlite3"
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "start.py"), name],
        cwd=directory,
        env=environment(directory, PORT=str(port), **{f"{name.upper()}_DATABASE": str(database)}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        project = Project(process, port, database)
        try:
            yield project
        finally:
            for pid in project.running():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            project.ended()
