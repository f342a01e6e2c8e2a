"""Cancel jobs: those that wait end at once, those that run are requested to stop.

A job that waits becomes failed, with its slot, unique key and expiry freed, in one transaction. For a job that runs, a
row in `cancellation` says who wants it to stop and why: the process that runs it reads that row, and the settle of its
outcome deletes it. Rows that are left, because the attempt ended before its process had read them, are resolved by
maintenance: a job that waits again is cancelled.

`owns_transaction` is as in job_actions.py; `promoting` says whether maintenance grants the slots in the same
transaction.
"""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.errors import TaskCancelled
from steady_queue.store.job import CancelRequest, FailureKind
from steady_queue.store.operations.actions.job_actions import (
    WAITING,
    delete_if_any,
    free_slots,
    lock_executions,
    promote_or_defer,
)
from steady_queue.store.operations.endings import fail_unclaimed
from steady_queue.store.operations.processes.requests import from_open_requests
from steady_queue.store.operations.promote import NO_LIMITS, promote
from steady_queue.store.outcome import report_of
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Operation

CLAIMED = "claimedexecution"
#: Requests in one step of maintenance.
BATCH_ROWS = 500


class CancelOutcome(StrEnum):
    """What a cancel did with a task; false if it changed nothing."""

    #: The task waited, and has ended.
    CANCELLED = "cancelled"
    #: The task runs, and its process is asked to stop it.
    REQUESTED = "requested"
    #: The task had finished or failed before.
    ALREADY_ENDED = "already ended"

    def __bool__(self) -> bool:
        return self is not CancelOutcome.ALREADY_ENDED


class RequestedClaim(NamedTuple):
    """A claim of a job that is to be cancelled."""

    claim_id: UUID
    request: CancelRequest


class FoundRequests(NamedTuple):
    """The claims of a process whose jobs are to be cancelled, and whether the process itself is asked for something."""

    claims: list[RequestedClaim]
    has_process_requests: bool = False


class Cancelled(NamedTuple):
    """The jobs that have ended, those that are requested to stop, and what is left to do."""

    ended: Sequence[UUID] = ()
    requested: Sequence[UUID] = ()
    promoted: Sequence[UUID] = ()
    #: Set inside a transaction of the application: slots are granted after its commit.
    after_commit: Operation[Any] | None = None

    @property
    def wakes_workers(self) -> bool:
        return bool(self.promoted) or self.after_commit is not None


class ResolvedRequests(NamedTuple):
    """The jobs that maintenance has cancelled, by their requests."""

    ended: Mapping[CancelRequest, Sequence[UUID]] = MappingProxyType({})


@operation()
def cancel(
    sql: Dialect,
    ids: Sequence[UUID],
    request: CancelRequest,
    limits: Limits = NO_LIMITS,
    *,
    owns_transaction: bool = True,
    tables: Sequence[str] = (*WAITING, CLAIMED),
) -> Flow[Cancelled]:
    """Cancel jobs that have a row in one of the tables; jobs that have ended are not changed."""
    waiting = yield from _take_waiting(sql, ids, [table for table in tables if table != CLAIMED])
    running: list[UUID] = []
    if CLAIMED in tables:
        running = yield from lock_executions(sql, CLAIMED, _without(ids, waiting))
    if running:
        yield from _insert_requests(sql, running, request)
    if not waiting:
        return Cancelled(requested=running)
    keys = yield from _end_waiting(sql, waiting, dict.fromkeys(waiting, request), limits)
    promoted, after_commit = yield from promote_or_defer(sql, keys, limits, owns_transaction)
    return Cancelled(waiting, running, promoted, after_commit)


@operation(transaction=False)
def find_requests(sql: Dialect, process_id: UUID, supervisor_id: UUID | None = None) -> Flow[FoundRequests]:
    """What a process is asked for: to cancel jobs, and what processes/requests.py reads, also for its supervisor.

    Requests are few and claims may be many, so the claims are looked up by the requests.
    """
    rows = yield sql.statement(
        "SELECT claim_id, requested_by, reason FROM (SELECT x.requested_by, x.reason,"
        f" (SELECT c.claim_id FROM steady_queue_claimedexecution c{sql.by_id}"
        " WHERE c.job_id = x.job_id AND c.process_id = ?) AS claim_id FROM steady_queue_cancellation x) found"
        " WHERE claim_id IS NOT NULL"
        f" UNION ALL SELECT id, requested_by, NULL{from_open_requests()}",
        process_id,
        [process_id] if supervisor_id is None else [process_id, supervisor_id],
        returns="u..",
    )
    claims = [RequestedClaim(id_, CancelRequest(by, why)) for id_, by, why in rows if why is not None]
    return FoundRequests(claims, has_process_requests=len(claims) < len(rows))


@operation()
def resolve_requests(sql: Dialect, limits: Limits = NO_LIMITS, *, promoting: bool = True) -> Flow[ResolvedRequests]:
    """Cancel the jobs that wait although they were requested to stop; delete the requests of those that have ended."""
    if not (yield from sql.try_maintenance()):
        return ResolvedRequests()
    rows = yield sql.statement(
        f"SELECT x.job_id, x.requested_by, x.reason{from_unclaimed_requests(sql)} ORDER BY x.job_id LIMIT ?",
        BATCH_ROWS,
        returns="u..",
    )
    requests = {job_id: CancelRequest(by, reason) for job_id, by, reason in rows}
    waiting = yield from _take_waiting(sql, list(requests), WAITING)
    ended = yield from _find_ended(sql, _without(list(requests), waiting))
    keys: dict[str, int] = {}
    if waiting:
        keys = yield from _end_waiting(sql, waiting, requests, limits)
    if ended:
        yield sql.delete("cancellation", ended)
    if promoting:
        yield from promote.flow(sql, keys, limits)
    return ResolvedRequests(_by_request({id_: requests[id_] for id_ in waiting}))


def from_unclaimed_requests(sql: Dialect) -> str:
    """The requests `x` whose jobs are not claimed."""
    # Counted: for NOT EXISTS MariaDB may materialize all claims.
    return (
        " FROM steady_queue_cancellation x WHERE"
        f" (SELECT count(*) FROM steady_queue_claimedexecution c{sql.by_id} WHERE c.job_id = x.job_id) = 0"
    )


def _take_waiting(sql: Dialect, ids: Sequence[UUID], tables: Sequence[str]) -> Flow[list[UUID]]:
    """Those of the jobs that have a row in one of the tables, which is locked and deleted."""
    waiting: set[UUID] = set()
    for table in tables:
        found = yield from lock_executions(sql, table, _without(ids, waiting))
        if found:
            yield sql.delete(table, found)
            waiting.update(found)
    return [id_ for id_ in dict.fromkeys(ids) if id_ in waiting]


def _insert_requests(sql: Dialect, ids: Sequence[UUID], request: CancelRequest) -> Flow[None]:
    """The first request counts: later ones change nothing. The claimed rows are locked, so that none comes between."""
    now = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0][0]
    into = "steady_queue_cancellation (job_id, requested_at, requested_by, reason) VALUES (?, ?, ?, ?)"
    yield sql.statement_each(sql.insert_or_lock(into), [(id_, now, request.by, request.reason) for id_ in sorted(ids)])


def _end_waiting(
    sql: Dialect, waiting: Sequence[UUID], requests: Mapping[UUID, CancelRequest], limits: Limits
) -> Flow[dict[str, int]]:
    """End jobs whose execution rows were deleted; returns the keys of their slots, to be promoted."""
    for request, ids in _by_request({id_: requests[id_] for id_ in waiting}).items():
        yield from fail_unclaimed(sql, ids, report_of(TaskCancelled(*request)), FailureKind.CANCELLED)
    for table in ("expiry", "cancellation"):
        yield from delete_if_any(sql, table, waiting)
    return (yield from free_slots(sql, waiting, limits))


def _find_ended(sql: Dialect, ids: Sequence[UUID]) -> Flow[list[UUID]]:
    """Those of the jobs that have ended for good. Failed ones are locked, so that they are not retried meanwhile."""
    if not ids:
        return []
    failed = yield from lock_executions(sql, "failedexecution", ids)
    rows = yield sql.statement(
        f"SELECT id FROM steady_queue_job{sql.by_id} WHERE id IN ?* AND finished_at IS NULL", list(ids), returns="u"
    )
    unfinished = {row[0] for row in rows}
    return [*failed, *(id_ for id_ in ids if id_ not in unfinished)]


def _without(ids: Sequence[UUID], some: Collection[UUID]) -> list[UUID]:
    """The ids, each once, without some of them."""
    left_out = set(some)
    return [id_ for id_ in dict.fromkeys(ids) if id_ not in left_out]


def _by_request(requests: Mapping[UUID, CancelRequest]) -> dict[CancelRequest, list[UUID]]:
    grouped: defaultdict[CancelRequest, list[UUID]] = defaultdict(list)
    for job_id, request in requests.items():
        grouped[request].append(job_id)
    return dict(grouped)
