"""Who this process is, told so that another on the same machine can know for sure whether it still exists."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.operations.processes import ProcessHealth
    from steady_queue.store.operations.prune import RegisteredProcess


def this_machine() -> dict[str, str]:
    """The boot of the machine and the PID namespace: only within both does a process id mean anything."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"boot": boot, "namespace": os.readlink("/proc/self/ns/pid")}
    except OSError:
        return {}


def start_time(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None when there is no such process."""
    try:
        # The name of the command stands in brackets and may hold anything, also brackets and spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def started_at(pid: int) -> float | None:
    """When a process started, in seconds since the epoch; None when that cannot be known."""
    ticks = start_time(pid)
    try:
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + int(ticks or "") / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration):
        return None


def describe(actors: list[dict[str, Any]]) -> str:
    """The metadata of this process's row."""
    return json.dumps({"actors": actors, **this_machine(), "started": start_time(os.getpid())})


def is_here(process: ProcessHealth) -> bool:
    """Whether a registered process belongs to this machine or container, as far as both of us can tell."""
    try:
        its = dict(json.loads(process.metadata))
    except (ValueError, TypeError):
        its = {}
    return process.hostname == hostname() and all(its.get(name, mine) == mine for name, mine in this_machine().items())


def is_gone(process: RegisteredProcess | ProcessHealth) -> bool:
    """Whether a registered process ran on this machine since its last boot, and no longer exists. In doubt: no."""
    mine = this_machine()
    try:
        its: dict[str, Any] = json.loads(process.metadata)
        started = its["started"]
        if not mine or started is None or any(its[name] != mine[name] for name in mine):
            return False
    except (ValueError, KeyError, TypeError):
        return False
    now = start_time(process.pid)
    return now != str(started) if now is not None else not _exists(process.pid)


def _exists(pid: int) -> bool:
    """Whether there is such a process; /proc may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def process_name(pid: int, process_id: UUID) -> str:
    """How a process of this machine is called in rows, logs and errors."""
    return f"{hostname()}:{pid}:{process_id.hex[:8]}"


def hostname() -> str:
    # With its process id and more it is a process's name, which has 255 characters.
    return socket.gethostname()[:200]
