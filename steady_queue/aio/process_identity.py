"""Identity: how the row of a process identifies it, so that processes of the same machine know whether it exists."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import steady_queue

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.store.operations.processes.prune import RegisteredProcess
    from steady_queue.store.operations.processes.registration import ProcessHealth


def this_machine() -> dict[str, str]:
    """Return the boot id of the machine and the PID namespace: a process id is only meaningful within both."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return {"boot": boot, "namespace": os.readlink("/proc/self/ns/pid")}
    except OSError:
        return {}


def start_time(pid: int) -> str | None:
    """Return when a process started, in the kernel's clock ticks; None if there is no such process."""
    try:
        # The name of the command is in brackets, and may itself contain brackets and spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since the epoch; None if that is unknown."""
    ticks = start_time(pid)
    try:
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
        return int(boot.split()[1]) + int(ticks or "") / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration):
        return None


def describe(actors: list[dict[str, Any]]) -> str:
    """Return the metadata of this process's row."""
    version = steady_queue.code_version
    # Absent if it is not set, so that the rows of projects without it are as before there was the setting.
    code = {} if version is None else {"code_version": version}
    own = {"version": steady_queue.__version__, "started": start_time(os.getpid())}
    return json.dumps({"actors": actors, **this_machine(), **own, **code})


def is_here(process: ProcessHealth) -> bool:
    """Return whether a registered process belongs to this machine or container, as far as that is known."""
    try:
        row = dict(json.loads(process.metadata))
    except (ValueError, TypeError):
        row = {}
    return process.hostname == hostname() and all(row.get(name, here) == here for name, here in this_machine().items())


def is_gone(process: RegisteredProcess | ProcessHealth) -> bool:
    """Return whether a registered process ran on this machine since its last boot and is gone. In doubt: False."""
    here = this_machine()
    try:
        row: dict[str, Any] = json.loads(process.metadata)
        started = row["started"]
        if not here or started is None or any(row[name] != here[name] for name in here):
            return False
    except (ValueError, KeyError, TypeError):
        return False
    now = start_time(process.pid)
    return now != str(started) if now is not None else not _exists(process.pid)


def _exists(pid: int) -> bool:
    """Return whether there is such a process; /proc may hide those of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def process_name(pid: int, process_id: UUID) -> str:
    """Return the name of a process of this machine in rows, logs and errors."""
    return f"{hostname()}:{pid}:{process_id.hex[:8]}"


def hostname() -> str:
    # Part of the process's name, which may have 255 characters.
    return socket.gethostname()[:200]
