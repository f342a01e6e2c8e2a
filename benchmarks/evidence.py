"""Whether what was measured was really stored, and was the same on both sides."""

from __future__ import annotations

from django.db import connections

from tests.support.databases.invariants import violations
from tests.support.databases.tables import count, query

_COLUMNS = (
    "j.queue_name, j.task_path, j.priority, j.lane, j.backend, j.scheduled_at, j.expires_at, j.headers,"
    " j.concurrency_key, j.concurrency_limit, j.on_conflict, j.unique_key, j.batch_id, j.attempts, j.retries,"
    " j.finished_at, r.queue_name, r.lane, r.priority"
)
#: What the rows of both sides may differ in: ids, times, and, one like the other, arguments.
_KINDS = (
    f"SELECT {_COLUMNS} FROM steady_queue_job j"
    f" LEFT JOIN steady_queue_readyexecution r ON r.job_id = j.id GROUP BY {_COLUMNS}"
)
_ODD_ARGUMENTS = "SELECT arguments FROM steady_queue_job GROUP BY arguments HAVING MOD(count(*), 2) = 1"


def problems(alias: str, jobs: int) -> list[str]:
    """What is wrong with the rows of so many jobs, half of which each side has stored."""
    if connections[alias].vendor == "postgresql":
        # The rules look ids up in each other's tables: by hashes that fit into memory, or for hours.
        query(alias, "SET work_mem = '256MB'")
    found = violations(alias)
    for table in ("job", "readyexecution"):
        if (stored := count(alias, table)) != jobs:
            found.append(f"{stored} rows in {table} instead of {jobs}")
    if len(kinds := query(alias, _KINDS)) != 1:
        found.append(f"rows that are not alike: {kinds[:2]}")
    if odd := query(alias, _ODD_ARGUMENTS):
        found.append(f"arguments that only one side has stored: {odd[:2]}")
    return [f"{alias}: {problem}" for problem in found]


def sweep(alias: str) -> None:
    """Remove the jobs, so that each case begins as the first one did."""
    how = "DELETE FROM" if connections[alias].vendor == "sqlite" else "TRUNCATE TABLE"
    for table in ("job", "readyexecution"):
        query(alias, f"{how} steady_queue_{table}")
