"""What a process uses, as the kernel tells it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple


class Memory(NamedTuple):
    """In MB: all that is resident, and what is the process's own; None where the kernel does not tell it."""

    rss: float
    uss: float | None

    def above(self, other: Memory) -> Memory:
        uss = None if self.uss is None or other.uss is None else self.uss - other.uss
        return Memory(self.rss - other.rss, uss)


def memory(pid: int) -> Memory:
    status = Path(f"/proc/{pid}/status").read_text()
    rss = _sum(status, "VmRSS")
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return Memory(rss, None)
    return Memory(rss, _sum(rollup, "Private_Clean|Private_Dirty"))


def cpu(pid: int) -> float:
    """Seconds of processor time so far, of all threads."""
    try:
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in _threads(pid)) / 1e9
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _sum(text: str, names: str) -> float:
    return sum(int(number) for number in re.findall(rf"^(?:{names}):\s+(\d+) kB", text, re.MULTILINE)) / 1024
