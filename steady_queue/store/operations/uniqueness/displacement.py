"""Displacement: a job that waits again, and whose unique key another job has taken since, ends instead.

Only a key that was held until its job was started can be taken while that job runs: see unique_keys.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.errors import DuplicateTask
from steady_queue.store.job import FailureKind, Until
from steady_queue.store.operations.endings import fail_unclaimed
from steady_queue.store.operations.uniqueness.unique_keys import KeyRequest, take_keys
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.outcome import Outcome, Settlement
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class DisplacedJob(NamedTuple):
    """A job that ended, and the one that has its unique key."""

    job_id: UUID
    task_path: str
    other_id: UUID


def list_displaced(outcomes: Iterable[Outcome], settlement: Settlement) -> list[DisplacedJob]:
    """The jobs that a settle of these outcomes has displaced."""
    return [
        DisplacedJob(claim.job_id, claim.task_path, settlement.displaced[claim.job_id])
        for claim in (outcome.claim for outcome in outcomes)
        if claim.job_id in settlement.displaced
    ]


def retake_keys(sql: Dialect, ids: Sequence[UUID], *, owns_transaction: bool) -> Flow[dict[UUID, UUID]]:
    """Take the unique keys of jobs that wait again; returns those whose keys other jobs have, each with the other."""
    if not ids:
        return {}
    rows = yield sql.select("job", "id, unique_key, unique_until", list(ids), returns="u..")
    key_of: dict[UUID, str] = {row[0]: row[1] for row in rows if row[1] is not None}
    requests: dict[str, KeyRequest] = {}
    for job_id, key, until in sorted((row for row in rows if row[1] is not None), key=lambda row: row[0]):
        # Of two with the same key, the older one.
        requests.setdefault(key, KeyRequest(key, job_id, Until.FINISHED if until is None else until))
    if not requests:
        return {}
    taken = yield from take_keys(sql, requests.values(), locks=True, owns_transaction=owns_transaction)
    holders = {key: taken[key].job_id if key in taken else request.job_id for key, request in requests.items()}
    return {job_id: holders[key] for job_id, key in key_of.items() if holders[key] != job_id}


def end_displaced(sql: Dialect, displaced: Mapping[UUID, UUID]) -> Flow[None]:
    """End jobs that have just become ready or scheduled again, and free their slots."""
    ids = list(displaced)
    for table in ("scheduledexecution", "readyexecution", "semaphore"):
        yield sql.delete(table, ids)
    for job_id, other in displaced.items():
        message = f"the task waited again, but the task {other} has its unique key"
        yield from fail_unclaimed(sql, [job_id], report(DuplicateTask, message), FailureKind.CANCELLED)
