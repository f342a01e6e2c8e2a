"""Checks that the measured jobs were stored, and that both implementations stored the same rows."""

from __future__ import annotations

from django.db import connections

from tests.support.databases.invariants import violations
from tests.support.databases.tables import count, query

_COLUMNS = (
    "j.queue_name, j.task_path, j.priority, j.lane, j.backend, j.scheduled_at, j.expires_at, j.headers,"
    " j.concurrency_key, j.concurrency_limit, j.on_conflict, j.unique_key, j.batch_id, j.attempts, j.retries,"
    " j.finished_at, r.queue_name, r.lane, r.priority"
)
#: The rows of both implementations differ only in ids, times and arguments.
_DISTINCT_ROWS = (
    f"SELECT {_COLUMNS} FROM steady_queue_job j"
    f" LEFT JOIN steady_queue_readyexecution r ON r.job_id = j.id GROUP BY {_COLUMNS}"
)
_UNPAIRED_ARGUMENTS = "SELECT arguments FROM steady_queue_job GROUP BY arguments HAVING MOD(count(*), 2) = 1"


def find_problems(alias: str, jobs: int) -> list[str]:
    """Check the rows of this number of jobs; each of the two implementations has stored half of them."""
    if connections[alias].vendor == "postgresql":
        # The invariants join large tables: with hashes that fit into memory, otherwise it takes hours.
        query(alias, "SET work_mem = '256MB'")
    found = violations(alias)
    for table in ("job", "readyexecution"):
        if (stored := count(alias, table)) != jobs:
            found.append(f"{stored} rows in {table} instead of {jobs}")
    if len(rows := query(alias, _DISTINCT_ROWS)) != 1:
        found.append(f"rows that differ: {rows[:2]}")
    if unpaired := query(alias, _UNPAIRED_ARGUMENTS):
        found.append(f"arguments that only one implementation has stored: {unpaired[:2]}")
    return [f"{alias}: {problem}" for problem in found]


def empty_tables(alias: str) -> None:
    """Delete the jobs, so that each case starts with empty tables."""
    statement = "DELETE FROM" if connections[alias].vendor == "sqlite" else "TRUNCATE TABLE"
    for table in ("job", "readyexecution"):
        query(alias, f"{statement} steady_queue_{table}")
