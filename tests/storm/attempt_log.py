"""The attempt log: a local file to which tasks append when they begin and how they end, independent of the queue."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Phase = Literal["begin", "end", "stopped", "failed"]

#: The environment variable with the path of the attempt log.
VARIABLE = "STEADY_QUEUE_STORM_ATTEMPT_LOG"
#: Bytes that one write appends atomically while other processes write.
LONGEST = 512


@dataclass(slots=True)
class Attempt:
    """One run of a task. Neither ended nor stopped: its process exited before."""

    job: str
    nonce: str
    pid: int
    kind: str
    began: float
    ended: float | None = None
    #: When it was cancelled.
    stopped: float | None = None
    #: When it raised an exception.
    failed: float | None = None

    @property
    def over(self) -> float | None:
        return next((at for at in (self.ended, self.stopped, self.failed) if at is not None), None)


def write(phase: Phase, *, job: str, nonce: str, kind: str) -> None:
    """Append one line."""
    entry = {"job": job, "nonce": nonce, "pid": os.getpid(), "phase": phase, "at": time.monotonic(), "kind": kind}
    line = json.dumps(entry).encode() + b"\n"
    assert len(line) < LONGEST
    assert os.write(_file(), line) == len(line)


@cache
def _file() -> int:
    return os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def read(path: Path) -> list[Attempt]:
    """Every attempt, in the order in which they began."""
    attempts: dict[str, Attempt] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        entry = json.loads(line)
        if entry["phase"] == "begin":
            assert entry["nonce"] not in attempts
            attempts[entry["nonce"]] = Attempt(entry["job"], entry["nonce"], entry["pid"], entry["kind"], entry["at"])
        else:
            field = {"end": "ended", "stopped": "stopped", "failed": "failed"}[entry["phase"]]
            setattr(attempts[entry["nonce"]], field, entry["at"])
    return sorted(attempts.values(), key=lambda attempt: attempt.began)
