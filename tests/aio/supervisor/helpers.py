"""What the tests of supervisors share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.databases.tables import counts, query
from tests.support.processes.process_rows import rows
from tests.support.runtime import in_thread, until

on_servers = pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be stopped

UNAVAILABLE = "the database is unavailable"
EXIT_ERROR = "steady_queue.processes.ProcessExitError"
#: What a stop may take beyond the shutdown timeout, on a busy machine and without a database.
MARGIN_SECONDS = 12.0


async def wait_for_processes(alias: str, number: int) -> set[int]:
    """Wait until so many processes are registered; return the process ids of the supervisor and its children."""
    found: set[int] = set()

    async def there() -> bool:
        found.clear()
        found.update(row.pid for row in await in_thread(rows, alias))
        return len(found) == number

    await until(there, f"{number} processes are not registered")
    return found


async def all_jobs_finished(alias: str) -> bool:
    return not await in_thread(counts, alias)


def distinct_attempts(alias: str) -> list[tuple[Any, ...]]:
    return query(alias, "SELECT DISTINCT attempts FROM steady_queue_job")
