"""Results: jobs with their status, read by one statement, so that all of it is of one point in time.

`find_jobs` reads everything, `find_states` only what changes while a job is watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.job import JobRecord, JobState, Status
from steady_queue.store.statement import chunks_of, operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

_JOINED = {
    "status": (
        "CASE WHEN j.finished_at IS NOT NULL THEN 'finished' WHEN f.job_id IS NOT NULL THEN 'failed'"
        " WHEN c.job_id IS NOT NULL THEN 'claimed' WHEN b.job_id IS NOT NULL THEN 'blocked'"
        " WHEN s.job_id IS NOT NULL THEN 'scheduled' ELSE 'ready' END"
    ),
    "failed_at": "f.failed_at",
    "claimed_at": "c.claimed_at",
    "claimed_by": "p.name",
    "due_at": "s.scheduled_at",
    "failure_kind": "f.kind",
}
_COLUMNS = ", ".join(_JOINED.get(name, f"j.{name}") for name in JobRecord._fields)
#: A time that cannot be parsed must not hide the other columns.
_TYPES = "".join("u" if name == "id" else "m" if name.endswith("_at") else "." for name in JobRecord._fields)
#: The tables that a status is read from.
_EXECUTIONS = (
    " LEFT JOIN steady_queue_failedexecution f ON f.job_id = j.id"
    " LEFT JOIN steady_queue_claimedexecution c ON c.job_id = j.id"
    " LEFT JOIN steady_queue_blockedexecution b ON b.job_id = j.id"
    " LEFT JOIN steady_queue_scheduledexecution s ON s.job_id = j.id"
)
_STATE_COLUMNS = ", ".join(_JOINED.get(name, f"j.{name}") for name in JobState._fields[:5])
#: Ids in one statement: servers limit the number of values.
IDS_PER_STATEMENT = 1_000


@operation(transaction=False)
def find_jobs(sql: Dialect, ids: Sequence[UUID]) -> Flow[list[JobRecord]]:
    """The jobs with these ids that exist, in the order of the ids."""
    if not ids:
        return []
    rows = yield sql.statement(
        f"SELECT {_COLUMNS} FROM steady_queue_job j"
        f"{_EXECUTIONS} LEFT JOIN steady_queue_process p ON p.id = c.process_id"
        " WHERE j.id IN ?*",
        list(ids),
        returns=_TYPES,
    )
    found = {row[0]: JobRecord._make(row)._replace(status=Status(row[1])) for row in rows}
    return [found[id_] for id_ in ids if id_ in found]


@operation(transaction=False)
def find_states(sql: Dialect, ids: Sequence[UUID], *, with_reports: bool = False) -> Flow[dict[UUID, JobState]]:
    """The states of the jobs with these ids that exist; `with_reports`: and their progress and log."""
    columns = f"{_STATE_COLUMNS}, j.progress, j.log" if with_reports else _STATE_COLUMNS
    found: dict[UUID, JobState] = {}
    for chunk in chunks_of(ids, IDS_PER_STATEMENT):
        rows = yield sql.statement(
            f"SELECT {columns} FROM steady_queue_job j{_EXECUTIONS} WHERE j.id IN ?*",
            list(chunk),
            returns="u......" if with_reports else "u....",
        )
        for row in rows:
            found[row[0]] = JobState(row[0], Status(row[1]), *row[2:])
    return found
