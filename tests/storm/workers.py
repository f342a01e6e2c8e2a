"""The workers of a storm, and the faults of each of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.storm import attempt_log
from tests.support.processes.scripts import REPOSITORY

#: Seconds within which a process that was sent STOP does stop.
STOP_TIMEOUT_SECONDS = 5.0
#: Seconds after TERM: far more than a stop may take.
STUCK_SECONDS = 12.0
#: How a line of the log begins.
LOGGED = re.compile(r"(\d+-\d+-\d+ \d+:\d+:\d+),(\d+) ")


@dataclass(slots=True)
class WorkerLife:
    """What a process went through, in seconds of the machine's monotonic clock, as in the attempt log."""

    pid: int
    log: Path
    #: Taken before the signal was sent: reactions of other processes came later.
    killed: float | None = None
    terminated: float | None = None
    #: From before STOP was sent until after CONT was.
    freezes: list[tuple[float, float]] = field(default_factory=list)
    exited: float | None = None
    code: int | None = None
    #: It was terminated, and had to be killed because it did not stop.
    is_stuck: bool = False

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def logged_at(self, *texts: str) -> list[float]:
        """When it logged a line with one of these texts."""
        offset = time.time() - time.monotonic()
        found = (LOGGED.match(line) for line in self.output.splitlines() if any(text in line for text in texts))
        return [
            time.mktime(time.strptime(at[1], "%Y-%m-%d %H:%M:%S")) + int(at[2]) / 1000 - offset for at in found if at
        ]

    def frozen_between(self, since: float, until: float) -> float:
        """For how many of these seconds it was frozen."""
        return sum(max(0.0, min(to, until) - max(at, since)) for at, to in self.freezes)


class Worker:
    """One process of the command."""

    def __init__(self, alias: str, directory: Path, number: int) -> None:
        log = directory / f"worker-{number}.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.storm.worker_program", alias],
                cwd=REPOSITORY,
                env={
                    **os.environ,
                    "PYTHONPATH": str(REPOSITORY),
                    "DJANGO_SETTINGS_MODULE": "tests.settings",
                    attempt_log.VARIABLE: str(directory / "attempts.log"),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.life = WorkerLife(self._process.pid, log)
        self._frozen_since: float | None = None
        # A thread of its own, so that the time is that of the exit and not of a later check.
        self._waiter = threading.Thread(target=self._wait)
        self._waiter.start()

    def _wait(self) -> None:
        code = self._process.wait()
        self.life.exited, self.life.code = time.monotonic(), code

    @property
    def has_exited(self) -> bool:
        return self.life.code is not None

    @property
    def is_up(self) -> bool:
        """Whether it works: it has started, and was not terminated."""
        return not self.has_exited and self.life.terminated is None and " started" in self.life.output

    @property
    def is_frozen(self) -> bool:
        return self._frozen_since is not None

    @property
    def is_stuck(self) -> bool:
        """Whether it should have exited long ago."""
        terminated = self.life.terminated
        if terminated is None or self.has_exited or self.is_frozen:
            return False
        now = time.monotonic()
        return now - terminated - self.life.frozen_between(terminated, now) > STUCK_SECONDS

    def kill(self) -> None:
        if not self.has_exited:
            self.life.killed = time.monotonic()
            self._send(signal.SIGKILL)
            self._waiter.join()
            self._note_thaw()

    def terminate(self) -> None:
        if not self.has_exited:
            self.life.terminated = self.life.terminated or time.monotonic()
            self._send(signal.SIGTERM)

    def freeze(self) -> None:
        """Stop it, and return when it has stopped or exited."""
        self._frozen_since = time.monotonic()
        self._send(signal.SIGSTOP)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while not self.has_exited and _state(self.life.pid) != "T":
            assert time.monotonic() < deadline, "it does not stop"
            time.sleep(0.001)

    def thaw(self) -> None:
        if self.is_frozen:
            self._send(signal.SIGCONT)
            self._note_thaw()

    def _note_thaw(self) -> None:
        if self._frozen_since is not None:
            self.life.freezes.append((self._frozen_since, time.monotonic()))
            self._frozen_since = None

    def _send(self, number: signal.Signals) -> None:
        if not self.has_exited:
            self._process.send_signal(number)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
