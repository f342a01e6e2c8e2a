"""The processes of a supervisor, as their rows show them."""

from __future__ import annotations

import json
from typing import NamedTuple

from tests.support.databases.tables import query
from tests.support.wait import in_thread, until


class Row(NamedTuple):
    """A process's row."""

    kind: str
    pid: int
    hostname: str
    supervisor_id: str | None
    actors: list[str]


def rows(alias: str) -> list[Row]:
    found = query(alias, "SELECT kind, pid, hostname, supervisor_id, metadata FROM steady_queue_process")
    return [
        Row(
            kind,
            pid,
            hostname,
            str(supervisor) if supervisor else None,
            [a["kind"] for a in json.loads(text)["actors"]],
        )
        for kind, pid, hostname, supervisor, text in found
    ]


async def pids(alias: str, kind: str) -> list[int]:
    """The process ids of the processes that run such an actor."""
    return [row.pid for row in await in_thread(rows, alias) if kind in row.actors]


async def wait_for_worker(alias: str, *, other_than: int | None = None) -> int:
    """Wait for a registered worker with another process id than this; return its process id."""
    found: list[int] = []

    async def there() -> bool:
        found[:] = [pid for pid in await pids(alias, "worker") if pid != other_than]
        return bool(found)

    await until(there, "no worker is registered")
    return found[0]


def exists(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
