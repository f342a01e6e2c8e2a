"""The memory and the CPU time of a process, from /proc."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple


class Memory(NamedTuple):
    """In MB: the resident memory (RSS), and the part that no other process shares (USS), None if it is not known."""

    rss: float
    uss: float | None

    def __sub__(self, other: Memory) -> Memory:
        uss = None if self.uss is None or other.uss is None else self.uss - other.uss
        return Memory(self.rss - other.rss, uss)


def read_memory(pid: int) -> Memory:
    status = Path(f"/proc/{pid}/status").read_text()
    rss = _sum_megabytes(status, "VmRSS")
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return Memory(rss, None)
    return Memory(rss, _sum_megabytes(rollup, "Private_Clean|Private_Dirty"))


def read_cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of the process since its start."""
    try:
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in _threads(pid)) / 1e9
    except OSError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _sum_megabytes(text: str, names: str) -> float:
    return sum(int(number) for number in re.findall(rf"^(?:{names}):\s+(\d+) kB", text, re.MULTILINE)) / 1024
