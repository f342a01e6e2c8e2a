"""Burial: what becomes of the claims of a process that has ended, or is taken for dead. By the database's time.

Who takes another for dead does it in one short transaction behind the try-lock of maintenance, so that of many
processes one does it and none waits. Who knows that a process has ended, because it was its parent, needs no such lock.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import Claim
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Failed, Released
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Rows in one step.
BATCH_ROWS = 500

_CLAIM_COLUMNS = "c.job_id, c.claim_id, c.claimed_at, " + ", ".join(f"j.{name}" for name in Claim._fields[3:])
_CLAIM_TYPES = "uut" + "".join(
    "t" if name.endswith("_at") else "i" if name == "concurrency_limit" else "." for name in Claim._fields[3:]
)


class RegisteredProcess(NamedTuple):
    """A process as its row tells it."""

    id: UUID
    name: str
    pid: int
    hostname: str
    metadata: str
    supervisor_id: UUID | None
    last_heartbeat_at: datetime


_REGISTERED_TYPES = "u....ut"


class SettledClaims(NamedTuple):
    """What became of the claims of a process: whose jobs were failed, and whose given back."""

    failed: Sequence[UUID]
    released: Sequence[UUID]


class PrunedProcess(NamedTuple):
    """A dead process whose claims were taken back, and their jobs, which have failed."""

    process: RegisteredProcess
    jobs: Sequence[UUID]


def find_processes(sql: Dialect) -> Operation[list[RegisteredProcess]]:
    """Every registered process."""
    return Operation("find processes", partial(_find_processes, sql), transaction=False)


def prune_process(
    sql: Dialect,
    *,
    me: UUID,
    report: Callable[[RegisteredProcess], ErrorReport],
    alive: timedelta | None = None,
    only: Collection[UUID] | None = None,
    limits: Limits | None = None,
) -> Operation[PrunedProcess | None]:
    """Fail the claims of one dead process and remove its row; None when nobody is dead.

    Dead is who has not beaten within `alive`; with `only`, who is named there, whatever its heartbeat; with both, who
    is named there and has not beaten.
    """
    return Operation("bury", partial(_bury, sql, me, report, alive, only, limits or {}))


def find_dead(
    sql: Dialect, *, me: UUID, alive: timedelta | None = None, only: Collection[UUID] | None = None
) -> Operation[list[RegisteredProcess]]:
    """All dead processes, as `bury` defines them."""
    return Operation("find dead", partial(_dead, sql, me, alive, only), transaction=False)


def find_orphans(sql: Dialect) -> Operation[dict[UUID, UUID]]:
    """Claims whose process has no row, each with its job's id; some of them."""
    return Operation("find orphans", partial(_find_orphans, sql), transaction=False)


def fail_orphans(sql: Dialect, report: ErrorReport, limits: Limits | None = None) -> Operation[list[UUID]]:
    """Fail claims whose process has no row; returns their jobs."""
    return Operation("fail orphans", partial(_fail_orphans, sql, report, limits or {}))


def prune_exited_process(
    sql: Dialect,
    process_id: UUID,
    name: str,
    report: ErrorReport,
    *,
    release: Collection[UUID] = (),
    limits: Limits | None = None,
) -> Operation[SettledClaims]:
    """Fail the claims of a process that has certainly ended, but for some that are given back; remove its row."""
    return Operation("end process", partial(_end, sql, process_id, name, report, set(release), limits or {}))


def find_process_claims(sql: Dialect, me: UUID) -> Operation[dict[UUID, UUID]]:
    """The claims that a process has, each with its job's id."""
    return Operation("own claims", partial(_own_claims, sql, me), transaction=False)


def release_claims(
    sql: Dialect, claims: Mapping[UUID, UUID], worker_id: str, limits: Limits | None = None
) -> Operation[int]:
    """Give back claims, each given with its job's id, of which their process knows nothing: a reply was lost."""
    return Operation("release", partial(_release, sql, claims, worker_id, limits or {}))


WITHOUT_PROCESS = "NOT EXISTS (SELECT 1 FROM steady_queue_process p WHERE p.id = c.process_id)"
ORPHANED = f" FROM steady_queue_claimedexecution c WHERE {WITHOUT_PROCESS}"


def _find_processes(sql: Dialect) -> Flow[list[RegisteredProcess]]:
    rows = yield sql.say(
        f"SELECT {', '.join(RegisteredProcess._fields)} FROM steady_queue_process", returns=_REGISTERED_TYPES
    )
    return [RegisteredProcess._make(row) for row in rows]


def _bury(
    sql: Dialect,
    me: UUID,
    report: Callable[[RegisteredProcess], ErrorReport],
    alive: timedelta | None,
    only: Collection[UUID] | None,
    limits: Limits,
) -> Flow[PrunedProcess | None]:
    if not (yield from sql.try_maintenance()):
        return None
    dead = yield from _dead(sql, me, alive, only, f" LIMIT 1{sql.take_free}")
    if not dead:
        return None
    (process,) = dead
    fates = yield from _end_claims(sql, process.id, process.name, report(process), set(), limits)
    return PrunedProcess(process, fates.failed)


def _dead(
    sql: Dialect, me: UUID, alive: timedelta | None, only: Collection[UUID] | None, suffix: str = ""
) -> Flow[list[RegisteredProcess]]:
    text = f"SELECT {', '.join(RegisteredProcess._fields)} FROM steady_queue_process WHERE id <> ?"
    values: list[object] = [me]
    if only is not None:
        text += " AND id IN ?*"
        values.append(list(only))
    if alive is not None or only is None:
        text += f" AND last_heartbeat_at < {sql.ago((alive or timedelta(0)).total_seconds())}"
    rows = yield sql.say(f"{text}{suffix}", *values, returns=_REGISTERED_TYPES)
    return [RegisteredProcess._make(row) for row in rows]


def _find_orphans(sql: Dialect) -> Flow[dict[UUID, UUID]]:
    rows = yield sql.say(f"SELECT c.claim_id, c.job_id{ORPHANED} LIMIT ?", BATCH_ROWS, returns="uu")
    return {row[0]: row[1] for row in rows}


def _fail_orphans(sql: Dialect, report: ErrorReport, limits: Limits) -> Flow[list[UUID]]:
    if not (yield from sql.try_maintenance()):
        return []
    rows = yield sql.say(f"SELECT c.job_id{ORPHANED} LIMIT ?", BATCH_ROWS, returns="u")
    if not rows:
        return []
    ids = [row[0] for row in rows]
    claims = yield from find_claims(sql, "c.job_id IN ?*", ids)
    if claims:
        yield from _fail(sql, claims, report, "unknown", limits)
    yield from forget_jobless(sql, ids)
    return [claim.job_id for claim in claims]


def forget_jobless(sql: Dialect, job_ids: Sequence[UUID]) -> Flow[None]:
    """Remove claimed rows whose job does not exist: nothing can become of them."""
    rows = yield sql.say("SELECT id FROM steady_queue_job WHERE id IN ?*", list(job_ids), returns="u")
    if gone := set(job_ids) - {row[0] for row in rows}:
        yield sql.say("DELETE FROM steady_queue_claimedexecution WHERE job_id IN ?*", list(gone))


def find_claims(sql: Dialect, where: str, value: object) -> Flow[list[Claim]]:
    """The claims `c` of jobs `j` for which the condition holds; some of them."""
    rows = yield sql.say(
        f"SELECT {_CLAIM_COLUMNS} FROM steady_queue_claimedexecution c JOIN steady_queue_job j ON j.id = c.job_id"
        f" WHERE {where} LIMIT ?",
        value,
        BATCH_ROWS,
        returns=_CLAIM_TYPES,
    )
    return [Claim._make(row) for row in rows]


def _fail(sql: Dialect, claims: Sequence[Claim], error: ErrorReport, worker_id: str, limits: Limits) -> Flow[None]:
    yield from settle(
        sql, [Failed(claim, error) for claim in claims], worker_id=worker_id, by_owner=False, limits=limits
    ).flow()


def _end(
    sql: Dialect, process_id: UUID, name: str, report: ErrorReport, release: set[UUID], limits: Limits
) -> Flow[SettledClaims]:
    # Held until the commit: another who takes the process for dead must not settle the same claims meanwhile.
    yield sql.say(f"SELECT id FROM steady_queue_process WHERE id = ?{sql.take}", process_id, returns="u")
    return (yield from _end_claims(sql, process_id, name, report, release, limits))


def _end_claims(
    sql: Dialect, process_id: UUID, name: str, report: ErrorReport, release: set[UUID], limits: Limits
) -> Flow[SettledClaims]:
    failed: list[UUID] = []
    released: list[UUID] = []
    while claims := (yield from find_claims(sql, "c.process_id = ?", process_id)):
        outcomes = [Released(c) if c.claim_id in release else Failed(c, report) for c in claims]
        yield from settle(sql, outcomes, worker_id=name, by_owner=False, limits=limits).flow()
        for outcome in outcomes:
            (released if isinstance(outcome, Released) else failed).append(outcome.claim.job_id)
    yield sql.say("DELETE FROM steady_queue_process WHERE id = ?", process_id)
    return SettledClaims(failed, released)


def _own_claims(sql: Dialect, me: UUID) -> Flow[dict[UUID, UUID]]:
    rows = yield sql.say(
        "SELECT claim_id, job_id FROM steady_queue_claimedexecution WHERE process_id = ?", me, returns="uu"
    )
    return {row[0]: row[1] for row in rows}


def _release(sql: Dialect, claims: Mapping[UUID, UUID], worker_id: str, limits: Limits) -> Flow[int]:
    ids = list(claims.values())[:BATCH_ROWS]
    found = yield from find_claims(sql, "c.job_id IN ?*", ids)
    lost = [Released(claim) for claim in found if claim.claim_id in claims]
    if lost:
        yield from settle(sql, lost, worker_id=worker_id, limits=limits).flow()
    if len(found) < len(ids):
        yield from forget_jobless(sql, ids)
    return len(lost)
