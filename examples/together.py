"""Processes that start together and end together."""

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

LOOK_EVERY_SECONDS = 0.05
#: More than a worker or a server takes to finish what it runs.
PATIENCE_SECONDS = 60


class Together:
    """Python programs of one directory. Ctrl-C, TERM or a closed terminal ends them all, and so does the end of one.

    Each has a process group of its own, so that Ctrl-C reaches this process alone: it asks them to end, once.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_told_to_stop = threading.Event()
        # Set before any of them starts: a signal that this process was told to ignore, they would ignore as well.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)

    def first(self, command: Command) -> bool:
        """Run a program to its end, before the others; whether it went well."""
        return self._start(command).wait() == 0

    def run(self, commands: Mapping[str, Command], is_up: Callable[[], bool], when_up: Callable[[], None]) -> int:
        """Run them until told to stop; returns the exit status. `when_up` is called once, as soon as `is_up()`."""
        running: dict[str, subprocess.Popen[bytes]] = {}
        is_told = False
        if self._is_told_to_stop.is_set():
            return 0
        try:
            for name, command in commands.items():
                running[name] = self._start(command)
            while not self._is_told_to_stop.wait(LOOK_EVERY_SECONDS):
                for name, process in running.items():
                    if process.poll() is not None:
                        print(f"The {name} has ended by itself, with status {process.returncode}.", file=sys.stderr)
                        return 1
                if not is_told and is_up():
                    is_told = True
                    when_up()
        finally:
            _end(running)
        # Django's server simply dies of the signal, and uvicorn, when it has ended in good order, says that it did.
        return int(any(process.returncode not in (0, -signal.SIGTERM) for process in running.values()))

    def _start(self, command: Command) -> subprocess.Popen[bytes]:
        # Unbuffered: what they print is seen at once, also in a pipe.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(
            [sys.executable, *command], cwd=self._directory, env=environment, stdin=subprocess.DEVNULL, process_group=0
        )

    def _stop(self, *_: Any) -> None:
        self._is_told_to_stop.set()


def _end(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Ask them all to end, and see that they do."""
    for process in running.values():
        # Not INT: a program that has not quite begun would answer that with a traceback.
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    for name, process in running.items():
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"The {name} does not end, and is killed.", file=sys.stderr)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
