"""Processes that start and stop together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Command = Sequence[str]

POLL_SECONDS = 0.05
#: More than a worker or a server needs to finish its tasks and requests.
STOP_TIMEOUT_SECONDS = 60


class ProcessGroup:
    """Python programs in one directory. Ctrl-C, TERM or a closed terminal stops them all, and so does the exit of one.

    Each has its own process group, so that Ctrl-C reaches only this process, which sends each of them one signal.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_stopping = threading.Event()
        # Set before any of them starts: they would inherit a signal that this process ignores.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def run_first(self, command: Command) -> bool:
        """Run a program to its end before the others; returns whether it succeeded."""
        return self._start(command).wait() == 0

    def run(self, commands: Mapping[str, Command], is_up: Callable[[], bool], when_up: Callable[[], None]) -> int:
        """Run them until a signal; returns the exit status. Calls `when_up` once, as soon as `is_up()` is true."""
        running: dict[str, subprocess.Popen[bytes]] = {}
        is_announced = False
        if self._is_stopping.is_set():
            return 0
        try:
            for name, command in commands.items():
                running[name] = self._start(command)
            while not self._is_stopping.wait(POLL_SECONDS):
                for name, process in running.items():
                    if process.poll() is not None:
                        print(f"The {name} exited unexpectedly with status {process.returncode}.", file=sys.stderr)
                        return 1
                if not is_announced and is_up():
                    is_announced = True
                    when_up()
        finally:
            _stop_all(running)
        # Both servers may exit with the signal: Django's immediately, uvicorn after a graceful shutdown.
        return int(any(process.returncode not in (0, -signal.SIGTERM) for process in running.values()))

    def _start(self, command: Command) -> subprocess.Popen[bytes]:
        # Unbuffered: their output appears immediately, even in a pipe.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [sys.executable, *command], cwd=self._directory, env=environment, stdin=subprocess.DEVNULL, process_group=0
        )

    def _stop(self, *_: Any) -> None:
        self._is_stopping.set()


def _stop_all(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Send TERM to all, and kill those that do not exit in time."""
    for process in running.values():
        # Not INT: a program that is still starting would print a traceback.
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
    for name, process in running.items():
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"The {name} does not stop and is killed.", file=sys.stderr)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
