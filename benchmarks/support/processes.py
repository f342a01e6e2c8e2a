"""Starts worker processes and exchanges messages with them; benchmarks.peers.harness is the other end."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

#: Twice as long as the longest measurement takes.
TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 20.0

ROOT = Path(__file__).parent.parent.parent
PEERS = ROOT / "benchmarks" / "peers"


class BenchmarkError(Exception):
    """A measured process failed or did not answer; the message ends with the last lines of its stderr."""


class WorkerProcess:
    """One process that obeys the commands of the benchmark.

    `program` is a module of this project, or the file name of a peer's script.
    """

    def __init__(
        self,
        program: str,
        options: Mapping[str, Any],
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.program = program
        # It is closed when the process has ended.
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # A peer's script must not find this project's package on its path.
        is_module = not program.endswith(".py")
        self._process = subprocess.Popen(
            [python, *(["-m", program] if is_module else [str(PEERS / program)]), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=ROOT if is_module else PEERS,
            env={**os.environ, **(environment or {})},
            text=True,
            bufsize=1,
        )
        self._unread = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")

    def receive(self, key: str, timeout: float = TIMEOUT_SECONDS) -> Any:
        """Wait for a message with this key, and return its value."""
        deadline = time.monotonic() + timeout
        while True:
            message = json.loads(self._read_line(key, deadline))
            if key in message:
                return message[key]

    def request_report(self) -> dict[str, Any]:
        self.send("report")
        report: dict[str, Any] = self.receive("report")
        return report

    def stop(self) -> None:
        try:
            if self._process.poll() is None:
                self.send("stop")
                self._process.wait(STOP_TIMEOUT_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._stderr.close()

    def _read_line(self, key: str, deadline: float) -> bytes:
        # It reads from the pipe itself: a line that is already in Python's buffer would not make the pipe readable.
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise BenchmarkError(f"{self.program} did not send {key!r} in time{self._end_of_stderr()}")
                if not (read := os.read(self._process.stdout.fileno(), 1 << 16)):
                    raise BenchmarkError(f"{self.program} exited before it sent {key!r}{self._end_of_stderr()}")
                self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _end_of_stderr(self) -> str:
        self._stderr.seek(0)
        text = self._stderr.read()[-3000:].strip()
        return f":\n{text}" if text else ""
