"""The process that outlives the tests: it ends a server that was not stopped, and removes its directory.

Run as `python cleanup_process.py <directory>`, with the server's pid written to its standard input at every start (0
after a stop). The end of that input means that the tests are done with the server, or are dead: either way the same
clean-up. A parent-death signal would not do: the kernel sends it when the *thread* that started the server ends.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether the process exists and has not ended; a zombie has ended."""
    return _status(pid)[0] not in ("X", "Z")


def children(pid: int) -> list[int]:
    """The running children of a process."""
    running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [child for child in running if _status(child)[1] == pid and alive(child)]


def freeze_with_children(pid: int) -> list[int]:
    """Stop a process and then its children; a stopped parent makes no new ones. Returns all of them, parent first."""
    _send(signal.SIGSTOP, pid)
    while _status(pid)[0] not in ("T", "X", "Z"):
        time.sleep(0.001)
    processes = [pid, *children(pid)]
    for member in processes:
        _send(signal.SIGSTOP, member)
    return processes


def thaw_with_children(pid: int) -> None:
    """Let a frozen process and its children go on."""
    for member in [*children(pid), pid]:
        _send(signal.SIGCONT, member)


def kill_with_children(pid: int) -> None:
    """SIGKILL a process and its children, and return when none of them runs any more."""
    processes = freeze_with_children(pid)
    for member in processes:
        _send(signal.SIGKILL, member)
    while any(alive(member) for member in processes):
        time.sleep(0.001)


def keep(directory: str, pids: Iterable[str]) -> None:
    """Follow the server's pid until the input ends, then kill the server and remove its directory."""
    pid = 0
    for line in pids:
        pid = int(line)
    if pid:
        kill_with_children(pid)
    shutil.rmtree(directory, ignore_errors=True)


def _status(pid: int) -> tuple[str, int]:
    """The state letter and the parent of a process; ("X", 0) when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    # The command's name is in parentheses and may hold anything, parentheses too.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)


def _send(number: signal.Signals, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    keep(sys.argv[1], sys.stdin)
