"""Claim: a process takes ready jobs, as many as it has capacity for. PostgreSQL: see sql/postgres_statements.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.ids import new_claim_id
from steady_queue.store.job import ANY_PRIORITY, CLAIM_JOB_COLUMNS, CLAIM_TYPES, FROM_ANY_PAUSE, Claim
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.job import Lane
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row


class ClaimRequest(NamedTuple):
    """The jobs that a process can start now: at most `capacity` of one lane, from these queues in this order."""

    process_id: UUID
    lane: Lane
    capacity: int
    queues: Sequence[str] = ()


class ClaimedFromAll(NamedTuple):
    """The claims from all queues."""

    claims: list[Claim]
    #: Whether any queue is paused: then nothing is claimed from all queues, and a claim has to name the others.
    is_paused: bool


def claim(sql: Dialect, *requests: ClaimRequest) -> Operation[list[Claim]]:
    """Claim ready jobs: in the order of the queues, then by priority, then by age. Paused queues are skipped.

    A process without a row gets nothing. Several requests are for different lanes of the same process.
    """
    return Operation("claim", partial(_claim, sql, requests), transaction=sql.single_statements is None)


def claim_from_all(sql: Dialect, *requests: ClaimRequest) -> Operation[ClaimedFromAll]:
    """Claim ready jobs of every queue by priority, then by age; the queues of the requests are ignored.

    Only while no queue is paused. The statement would have to read past all jobs of a paused queue, however many there
    are: so nothing is claimed, and the result says why.
    """
    return Operation("claim", partial(_claim_from_all, sql, requests), transaction=sql.single_statements is None)


def _claim(sql: Dialect, requests: Sequence[ClaimRequest]) -> Flow[list[Claim]]:
    requests = [_with_distinct_queues(request) for request in requests if request.capacity > 0 and request.queues]
    if not requests:
        return []
    if sql.single_statements:
        rows = yield sql.single_statements.claim(*requests)
        return [Claim._make(row) for row in rows]
    ready: list[Row] = []
    for request in requests:
        ready += yield from _lock_ready(sql, request)
    return (yield from _claim_locked(sql, requests[0].process_id, ready))


def _claim_from_all(sql: Dialect, requests: Sequence[ClaimRequest]) -> Flow[ClaimedFromAll]:
    requests = [request for request in requests if request.capacity > 0]
    if not requests:
        return ClaimedFromAll([], False)
    if sql.single_statements:
        rows = yield sql.single_statements.claim_from_all(*requests)
        return ClaimedFromAll([Claim._make(row) for row in rows if row[0] is not None], _has_pause_row(rows))
    ready: list[Row] = []
    is_paused = False
    for request in requests:
        rows = yield sql.statement(
            f"SELECT * FROM (SELECT r.job_id, {sql.now} AS at FROM {sql.ready_all} WHERE {ANY_PRIORITY} AND r.lane = ?"
            " AND NOT EXISTS (SELECT 1 FROM steady_queue_pause)"
            f" AND EXISTS (SELECT 1 FROM steady_queue_process o{sql.by_id} WHERE o.id = ?)"
            f" ORDER BY r.priority DESC, r.job_id LIMIT ?{sql.for_update_skip_locked}) t"
            f" UNION ALL SELECT * FROM (SELECT NULL AS job_id, NULL AS at {FROM_ANY_PAUSE}) s",
            *(request.lane, request.process_id, request.capacity),
            returns="ut",
        )
        ready += [row for row in rows if row[0] is not None]
        is_paused = is_paused or _has_pause_row(rows)
    return ClaimedFromAll((yield from _claim_locked(sql, requests[0].process_id, ready)), is_paused)


def _has_pause_row(rows: Sequence[Row]) -> bool:
    return bool(rows) and rows[-1][0] is None


def _with_distinct_queues(request: ClaimRequest) -> ClaimRequest:
    return request._replace(queues=list(dict.fromkeys(request.queues)))


def _lock_ready(sql: Dialect, request: ClaimRequest) -> Flow[list[Row]]:
    """The ids of the ready jobs, locked, each with the database's time."""
    found: list[Row] = []
    for queue in request.queues:
        rows = yield sql.statement(
            f"SELECT r.job_id, {sql.now} FROM {sql.ready_by_queue} WHERE r.queue_name = ? AND r.lane = ?"
            # By the bound name, not by the name of each row: a paused queue may have any number of rows.
            f" AND NOT EXISTS (SELECT 1 FROM steady_queue_pause p{sql.by_id} WHERE p.queue_name = ?)"
            f" AND EXISTS (SELECT 1 FROM steady_queue_process o{sql.by_id} WHERE o.id = ?)"
            f" ORDER BY r.priority DESC, r.job_id LIMIT ?{sql.for_update_skip_locked}",
            *(queue, request.lane, queue, request.process_id, request.capacity - len(found)),
            returns="ut",
        )
        found.extend(rows)
        if len(found) >= request.capacity:
            break
    return found


def _claim_locked(sql: Dialect, process_id: UUID, ready: Sequence[Row]) -> Flow[list[Claim]]:
    """Replace the ready rows by claimed rows."""
    if not ready:
        return []
    ids = [row[0] for row in ready]
    now = ready[-1][1]
    yield sql.delete("readyexecution", ids)
    claim_ids = {job_id: new_claim_id() for job_id in ids}
    yield sql.statement_each(
        "INSERT INTO steady_queue_claimedexecution (job_id, claim_id, process_id, claimed_at) VALUES (?, ?, ?, ?)",
        [(job_id, claim_ids[job_id], process_id, now) for job_id in ids],
    )
    columns = ("id", *CLAIM_JOB_COLUMNS)
    rows = yield sql.select("job", ", ".join(columns), ids, returns=f"u{CLAIM_TYPES[3:]}")
    jobs = {row[0]: row for row in rows}
    return [Claim(id_, claim_ids[id_], now, *jobs[id_][1:]) for id_ in ids if id_ in jobs]
