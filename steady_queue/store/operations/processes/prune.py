"""Prune: end the claims of a process that has exited, or is considered dead. By the database's time.

A process that considers another one dead prunes it in one short transaction behind the try-lock of maintenance, so that
of many processes one does it and none waits. A parent, which knows that its child has exited, needs no such lock.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import CLAIM_JOB_COLUMNS, Claim
from steady_queue.store.operations.processes.lost_claims import SettledClaims, fail, settle_lost
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.operations.settle import settle
from steady_queue.store.operations.uniqueness.displacement import list_displaced
from steady_queue.store.outcome import Released
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.processes.lost_claims import Decide
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.operations.uniqueness.displacement import DisplacedJob
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Rows in one step.
BATCH_ROWS = 500
#: The worker of claims whose process has no row.
UNKNOWN_PROCESS = "unknown"

_CLAIM_COLUMNS = "c.job_id, c.claim_id, c.claimed_at, " + ", ".join(f"j.{name}" for name in CLAIM_JOB_COLUMNS)
_CLAIM_TYPES = "uut" + "".join(
    "t" if name.endswith("_at") else "i" if name == "concurrency_limit" else "." for name in CLAIM_JOB_COLUMNS
)


class RegisteredProcess(NamedTuple):
    """A row of the process table."""

    id: UUID
    name: str
    pid: int
    hostname: str
    metadata: str
    supervisor_id: UUID | None
    last_heartbeat_at: datetime


_PROCESS_COLUMNS = ", ".join(RegisteredProcess._fields)
_PROCESS_TYPES = "u....ut"


class PrunedProcess(NamedTuple):
    """A dead process whose claims were ended, and what became of their jobs."""

    process: RegisteredProcess
    settled: SettledClaims


class ReleasedClaims(NamedTuple):
    """How many claims were released, and those of their jobs that ended instead."""

    total: int
    displaced: Sequence[DisplacedJob] = ()


@operation(transaction=False)
def find_processes(sql: Dialect) -> Flow[list[RegisteredProcess]]:
    """Every registered process."""
    rows = yield sql.statement(f"SELECT {_PROCESS_COLUMNS} FROM steady_queue_process", returns=_PROCESS_TYPES)
    return [RegisteredProcess._make(row) for row in rows]


@operation()
def prune_process(
    sql: Dialect,
    *,
    me: UUID,
    report: Callable[[RegisteredProcess], ErrorReport],
    alive: timedelta | None = None,
    only: Collection[UUID] | None = None,
    limits: Limits = NO_LIMITS,
    decide: Decide = fail,
) -> Flow[PrunedProcess | None]:
    """End the claims of one dead process and remove its row; None when no process is dead.

    A process is dead that has sent no heartbeat within `alive`; with `only`, one of those, regardless of its heartbeat;
    with both, one of those that has sent no heartbeat.
    """
    if not (yield from sql.try_maintenance()):
        return None
    dead = yield from find_dead.flow(sql, me=me, alive=alive, only=only, suffix=f" LIMIT 1{sql.for_update_skip_locked}")
    if not dead:
        return None
    (process,) = dead
    settled = yield from _end_all_claims(sql, process.id, process.name, report(process), (), limits, decide)
    return PrunedProcess(process, settled)


@operation(transaction=False)
def find_dead(
    sql: Dialect,
    *,
    me: UUID,
    alive: timedelta | None = None,
    only: Collection[UUID] | None = None,
    suffix: str = "",
) -> Flow[list[RegisteredProcess]]:
    """All dead processes, as `prune_process` defines them."""
    text = f"SELECT {_PROCESS_COLUMNS} FROM steady_queue_process WHERE id <> ?"
    values: list[object] = [me]
    if only is not None:
        text += " AND id IN ?*"
        values.append(list(only))
    if alive is not None or only is None:
        text += f" AND last_heartbeat_at < {sql.ago((alive or timedelta(0)).total_seconds())}"
    rows = yield sql.statement(f"{text}{suffix}", *values, returns=_PROCESS_TYPES)
    return [RegisteredProcess._make(row) for row in rows]


@operation()
def prune_exited_process(
    sql: Dialect,
    process_id: UUID,
    name: str,
    report: ErrorReport,
    *,
    release: Collection[UUID] = (),
    limits: Limits = NO_LIMITS,
    decide: Decide = fail,
) -> Flow[SettledClaims]:
    """End the claims of a process that has certainly exited, except some that are released; remove its row."""
    # Locked until the commit: a process that considers it dead must not settle the same claims meanwhile.
    yield sql.statement(
        f"SELECT id FROM steady_queue_process{sql.by_id} WHERE id = ?{sql.for_update}", process_id, returns="u"
    )
    return (yield from _end_all_claims(sql, process_id, name, report, set(release), limits, decide))


@operation(transaction=False)
def find_orphans(sql: Dialect) -> Flow[dict[UUID, UUID]]:
    """Claims whose process has no row, each with its job's id; at most BATCH_ROWS."""
    rows = yield sql.statement(f"SELECT c.claim_id, c.job_id{from_orphans(sql)} LIMIT ?", BATCH_ROWS, returns="uu")
    return {row[0]: row[1] for row in rows}


@operation()
def end_orphans(
    sql: Dialect, report: ErrorReport, limits: Limits = NO_LIMITS, decide: Decide = fail
) -> Flow[SettledClaims]:
    """End claims whose process has no row."""
    if not (yield from sql.try_maintenance()):
        return SettledClaims()
    rows = yield sql.statement(f"SELECT c.job_id{from_orphans(sql)} LIMIT ?", BATCH_ROWS, returns="u")
    if not rows:
        return SettledClaims()
    ids = [row[0] for row in rows]
    claims = yield from find_claims(sql, "c.job_id IN ?*", ids)
    settled = yield from settle_lost(sql, claims, report, UNKNOWN_PROCESS, limits=limits, decide=decide)
    yield from delete_jobless_claims(sql, ids)
    return settled


@operation(transaction=False)
def find_process_claims(sql: Dialect, process_id: UUID) -> Flow[dict[UUID, UUID]]:
    """The claims of a process, each with its job's id."""
    rows = yield sql.statement(
        "SELECT claim_id, job_id FROM steady_queue_claimedexecution WHERE process_id = ?", process_id, returns="uu"
    )
    return {row[0]: row[1] for row in rows}


@operation()
def release_claims(
    sql: Dialect, claims: Mapping[UUID, UUID], process_name: str, limits: Limits = NO_LIMITS
) -> Flow[ReleasedClaims]:
    """Release claims, each given with its job's id, that their process does not know: the reply was lost."""
    ids = list(claims.values())[:BATCH_ROWS]
    found = yield from find_claims(sql, "c.job_id IN ?*", ids)
    unknown = [Released(claim) for claim in found if claim.claim_id in claims]
    displaced: Sequence[DisplacedJob] = ()
    if unknown:
        settlement = yield from settle(sql, unknown, process_name=process_name, limits=limits).flow()
        displaced = list_displaced(unknown, settlement)
    if len(found) < len(ids):
        yield from delete_jobless_claims(sql, ids)
    return ReleasedClaims(len(unknown), displaced)


def without_process(sql: Dialect) -> str:
    """The condition that the process of a claim `c` has no row."""
    return f"NOT EXISTS (SELECT 1 FROM steady_queue_process p{sql.by_id} WHERE p.id = c.process_id)"


def from_orphans(sql: Dialect) -> str:
    """The claims whose process has no row."""
    return f" FROM steady_queue_claimedexecution c WHERE {without_process(sql)}"


def delete_jobless_claims(sql: Dialect, job_ids: Sequence[UUID]) -> Flow[None]:
    """Delete claimed rows whose job does not exist: they cannot be settled."""
    rows = yield sql.select("job", "id", list(job_ids), returns="u")
    if missing := set(job_ids) - {row[0] for row in rows}:
        yield sql.delete("claimedexecution", list(missing))


def find_claims(sql: Dialect, where: str, value: object) -> Flow[list[Claim]]:
    """The claims `c` of jobs `j` for which the condition is true; at most BATCH_ROWS."""
    rows = yield sql.statement(
        f"SELECT {_CLAIM_COLUMNS} FROM steady_queue_claimedexecution c JOIN steady_queue_job j ON j.id = c.job_id"
        f" WHERE {where} LIMIT ?",
        value,
        BATCH_ROWS,
        returns=_CLAIM_TYPES,
    )
    return [Claim(*row) for row in rows]


def _end_all_claims(
    sql: Dialect,
    process_id: UUID,
    name: str,
    report: ErrorReport,
    release: Collection[UUID],
    limits: Limits,
    decide: Decide,
) -> Flow[SettledClaims]:
    settled = SettledClaims()
    while claims := (yield from find_claims(sql, "c.process_id = ?", process_id)):
        settled += yield from settle_lost(sql, claims, report, name, release=release, limits=limits, decide=decide)
    yield sql.delete_one("process", process_id)
    return settled
