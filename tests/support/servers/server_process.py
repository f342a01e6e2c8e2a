"""A private server process: made in its own temporary directory, started, stopped, frozen, killed, started again."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.support.servers import cleanup_process
from tests.support.servers.host import claim_port

WAIT_TIMEOUT_SECONDS = 45.0  # seconds; below the tests' own timeout, so that the server's log is what a failure shows
#: How many ports are tried at the first start.
PORTS_TRIED = 5


class ServerError(Exception):
    """Raised when a server did not start or run a command; the end of its log is added as a note."""


class ServerProcess(ABC):
    """One server process and its directory; a subclass says how to prepare it, run it and ask whether it answers."""

    name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    host = "127.0.0.1"
    user = "steady"
    password = "queue"

    def __init__(self, account: str | None = None) -> None:
        self.account = account
        self._claim = claim_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"steady-queue-{self.name}-"))
        self.socket_directory = str(self.directory)
        self.log = self.directory / "log"
        self._is_prepared = False
        self._has_answered = False
        self._process: subprocess.Popen[bytes] | None = None
        self._cleanup: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", cleanup_process.__file__, str(self.directory)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C is for the tests, not for the cleanup process
        )
        if account is not None:
            shutil.chown(self.directory, account, pwd.getpwnam(account).pw_gid)

    @abstractmethod
    def prepare(self) -> None:
        """Make the files the server needs before its first start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line that runs the server in the foreground."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether a client gets through."""

    @property
    def port(self) -> int:
        """The loopback port; another one after the first start, if this one was in use."""
        return self._claim.port

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the server process is there; one that crashed is not."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the server and wait until it answers: on the same data as ever, and where it first answered."""
        assert self._cleanup is not None, f"{self.name} was destroyed"
        assert not self.running, f"{self.name} is already running"
        try:
            if not self._is_prepared:
                self.prepare()
                self._is_prepared = True
            self._start_on_a_free_port()
        except BaseException as error:
            self.kill()
            error.add_note(self.log_tail())
            raise
        return self

    def _start_on_a_free_port(self) -> None:
        for _ in range(PORTS_TRIED):
            logged = self.log.stat().st_size if self.log.exists() else 0
            self._process = self._spawn(self.command())
            self._send_pid(self._process.pid)
            wait_until(lambda: not self.running or self.answers(), f"{self.name} answers")
            code = self._process.poll()
            if code is None:
                self._has_answered = True
                return
            # Clients know the port of a server that has answered before.
            if self._has_answered or b"in use" not in self.log.read_bytes()[logged:]:
                break
            taken, self._claim = self._claim, claim_port()
            taken.release()
        raise ServerError(f"{self.name} ended at its start and returned {code}")

    def stop(self) -> None:
        """Shut down in order, without waiting for clients; nothing happens when it is not running."""
        if self.running:
            self.thaw()
            os.kill(self.pid, self.stop_signal)
        self._reap()

    def kill(self) -> None:
        """SIGKILL the server and its children, as a crash of the machine does."""
        if self.running:
            cleanup_process.kill_with_children(self.pid)
        self._reap()

    def restart(self) -> None:
        """Stop in order and start again."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop the server's processes where they are: connections stay open and get no answer."""
        cleanup_process.freeze_with_children(self.pid)

    def thaw(self) -> None:
        """Let frozen processes go on."""
        cleanup_process.thaw_with_children(self.pid)

    def destroy(self) -> None:
        """Stop the server and remove its directory for good."""
        try:
            self.stop()
        finally:
            self._claim.release()
            if self._cleanup is not None:
                self._cleanup.communicate()
                self._cleanup = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.destroy()
            raise

    def __exit__(self, *exception: object) -> None:
        self.destroy()

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end as the server's user, its output going to the server's log."""
        if code := self._spawn(command).wait():
            raise ServerError(f"{command[0]} returned {code}")

    def log_tail(self, lines: int = 30) -> str:
        """The last lines the server wrote."""
        written = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(written[-lines:])

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        account = self.account
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,  # the tests' own may be closed to the server's user
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=account,
                group=pwd.getpwnam(account).pw_gid if account else None,
                extra_groups=[] if account else None,
            )

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait(WAIT_TIMEOUT_SECONDS)
            self._process = None
            self._send_pid(0)

    def _send_pid(self, pid: int) -> None:
        assert self._cleanup is not None
        assert self._cleanup.stdin is not None
        self._cleanup.stdin.write(b"%d\n" % pid)
        self._cleanup.stdin.flush()


def wait_until(condition: Callable[[], bool], what: str, timeout_seconds: float = WAIT_TIMEOUT_SECONDS) -> None:
    """Return as soon as the condition holds; TimeoutError, saying what was awaited, when it never does."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {timeout_seconds:g} s: {what}")
        time.sleep(0.01)
