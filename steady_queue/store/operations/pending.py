"""Read the jobs that have not ended, and the recurring tasks made at run time, in the order of their keys.

`check --stored` runs with the new code before the migrations of that code are applied: only columns of the first
migration are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.store.job import Status
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Before the id of every job.
FIRST_ID = UUID(int=0)


class PendingJob(NamedTuple):
    """What decides whether a job can be run."""

    id: UUID
    task_path: str
    queue_name: str
    backend: str
    arguments: str


class DynamicEntry(NamedTuple):
    """What decides whether the ticks of a recurring task can be enqueued and run."""

    task_key: str
    task_path: str
    arguments: str
    queue_name: str | None


@operation(transaction=False)
def count_jobs(sql: Dialect, status: Status) -> Flow[int]:
    """How many jobs have this status, which is not `finished`."""
    rows = yield sql.statement(f"SELECT count(*) FROM steady_queue_{status}execution", returns=".")
    return int(rows[0][0])


@operation(transaction=False)
def list_jobs(sql: Dialect, status: Status, after: UUID, size: int) -> Flow[list[tuple[UUID, int]]]:
    """The next jobs with this status in the order of their ids, each with the length of its arguments."""
    rows = yield sql.statement(
        f"SELECT job_id FROM steady_queue_{status}execution WHERE job_id > ? ORDER BY job_id LIMIT ?",
        after,
        size,
        returns="u",
    )
    ids = [row[0] for row in rows]
    if not ids:
        return []
    rows = yield sql.select("job", "id, LENGTH(arguments)", ids, returns="u.")
    lengths = {row[0]: int(row[1] or 0) for row in rows}
    return [(id_, lengths.get(id_, 0)) for id_ in ids]


@operation(transaction=False)
def read_jobs(sql: Dialect, ids: Sequence[UUID]) -> Flow[list[PendingJob]]:
    """Those of the jobs that still exist."""
    rows = yield sql.select("job", ", ".join(PendingJob._fields), list(ids), returns="u....")
    return [PendingJob._make(row) for row in rows]


@operation(transaction=False)
def read_dynamic_entries(sql: Dialect, after: str, size: int) -> Flow[list[DynamicEntry]]:
    """The next enabled entries that were made at run time, in the order of their keys."""
    rows = yield sql.statement(
        f"SELECT {', '.join(DynamicEntry._fields)} FROM steady_queue_recurringtask"
        " WHERE task_key > ? AND static = ? AND enabled = ? ORDER BY task_key LIMIT ?",
        after,
        False,
        True,
        size,
        returns="....",
    )
    return [DynamicEntry._make(row) for row in rows]
