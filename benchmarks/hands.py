"""Processes that work for a measurement, as it commands them: see benchmarks.peers.harness for the other end."""

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

#: How long anything may take, in seconds; twice as long as the longest measurement.
PATIENCE = 120.0
#: How long a process may take to stop.
STOP_WITHIN = 20.0

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"


class HandError(Exception):
    """A process did not do as it was told; the end of what it complained about is in the text."""


class Hand:
    """One process, from its start to its end."""

    def __init__(
        self,
        program: str,
        orders: Mapping[str, Any],
        *,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.program = program
        # It lives as long as the process.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # A module of ours, or a peer's script: only the first may find our package on its path.
        ours = not program.endswith(".py")
        self._process = subprocess.Popen(
            [python, *(["-m", program] if ours else [str(PEERS / program)]), json.dumps(orders)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            cwd=ROOT if ours else PEERS,
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

    def say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")

    def hear(self, what: str, patience: float = PATIENCE) -> Any:
        """Wait until it tells this, and return what it tells."""
        deadline = time.monotonic() + patience
        while True:
            told = json.loads(self._line(what, deadline))
            if what in told:
                return told[what]

    def ask(self) -> dict[str, Any]:
        """Its report."""
        self.say("report")
        report: dict[str, Any] = self.hear("report")
        return report

    def stop(self) -> None:
        try:
            if self._process.poll() is None:
                self.say("stop")
                self._process.wait(STOP_WITHIN)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._complaints.close()

    def _line(self, what: str, deadline: float) -> bytes:
        # Read from the pipe itself: a line left in Python's buffer would not make the pipe readable.
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise HandError(f"{self.program} did not tell {what!r} in time{self._end_of_complaints()}")
                if not (read := os.read(self._process.stdout.fileno(), 1 << 16)):
                    raise HandError(f"{self.program} ended before it told {what!r}{self._end_of_complaints()}")
                self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _end_of_complaints(self) -> str:
        self._complaints.seek(0)
        text = self._complaints.read()[-3000:].strip()
        return f":\n{text}" if text else ""
