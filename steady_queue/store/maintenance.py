"""Maintenance: what keeps the queue whole when processes die. Small steps, by the database's time.

Each step is one short transaction that begins with a try-lock, so that of many processes one does it and none waits.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import Claim, Lane
from steady_queue.store.outcome import Failed, Released
from steady_queue.store.promote import promote
from steady_queue.store.settle import settle
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.outcome import ErrorReport
    from steady_queue.store.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row

#: Rows in one step.
BATCH = 500

_CLAIM_COLUMNS = "c.job_id, c.claim_id, c.claimed_at, " + ", ".join(f"j.{name}" for name in Claim._fields[3:])
_CLAIM_TYPES = "uut" + "".join("t" if name.endswith("_at") else "." for name in Claim._fields[3:])


class Work(NamedTuple):
    """What a maintenance turn has to do, found with one statement."""

    dead: bool
    orphans: bool
    ownerless: bool
    blocked: bool
    old: bool


class Registered(NamedTuple):
    """A process as its row tells it."""

    id: UUID
    name: str
    pid: int
    hostname: str
    metadata: str
    last_heartbeat_at: datetime


class Buried(NamedTuple):
    """A dead process whose claims were taken back, and how many."""

    process: Registered
    jobs: int


def look(sql: Dialect, *, alive: timedelta, keep: timedelta | None) -> Operation[Work]:
    """Whether there is anything to do. `keep`: how long finished jobs are kept, None for ever."""
    return Operation("look", partial(_look, sql, alive, keep), transaction=False)


def find_processes(sql: Dialect) -> Operation[list[Registered]]:
    """Every registered process."""
    return Operation("find processes", partial(_find_processes, sql), transaction=False)


def bury(
    sql: Dialect,
    *,
    me: UUID,
    report: Callable[[Registered], ErrorReport],
    alive: timedelta | None = None,
    only: Collection[UUID] | None = None,
    limits: Limits | None = None,
) -> Operation[Buried | None]:
    """Fail the claims of one dead process and remove its row; None when nobody is dead.

    Dead is who has not beaten within `alive`; with `only`, who is named there, whatever its heartbeat.
    """
    return Operation("bury", partial(_bury, sql, me, report, alive, only, limits or {}))


def fail_orphans(sql: Dialect, report: ErrorReport, limits: Limits | None = None) -> Operation[int]:
    """Fail claims whose process has no row."""
    return Operation("fail orphans", partial(_fail_orphans, sql, report, limits or {}))


def free_ownerless(sql: Dialect, limits: Limits | None = None) -> Operation[int]:
    """Free slots whose job is neither ready nor claimed."""
    return Operation("free ownerless slots", partial(_free_ownerless, sql, limits or {}))


def promote_stranded(sql: Dialect, after: str = "", limits: Limits | None = None) -> Operation[tuple[int, str | None]]:
    """Promote the next keys with blocked jobs, in order from `after`; returns the count, and where to go on or None."""
    return Operation("promote stranded", partial(_promote_stranded, sql, after, limits or {}))


def clear_finished(sql: Dialect, keep: timedelta, batch: int = BATCH) -> Operation[int]:
    """Delete jobs that finished longer than `keep` ago."""
    return Operation("clear finished", partial(_clear_finished, sql, keep, batch))


def own_claims(sql: Dialect, me: UUID) -> Operation[dict[UUID, UUID]]:
    """The claims that a process has, each with its job's id."""
    return Operation("own claims", partial(_own_claims, sql, me), transaction=False)


def release(sql: Dialect, claims: Mapping[UUID, UUID], worker_id: str) -> Operation[int]:
    """Give back claims, each given with its job's id, of which their process knows nothing: a reply was lost."""
    return Operation("release", partial(_release, sql, claims, worker_id))


def find_waiting(sql: Dialect) -> Operation[list[tuple[str, Lane]]]:
    """The queues and lanes that have ready jobs, at most 100 of them."""
    return Operation("find waiting", partial(_find_waiting, sql), transaction=False)


_OWNERLESS = (
    " FROM steady_queue_semaphore s WHERE NOT EXISTS"
    " (SELECT 1 FROM steady_queue_readyexecution r WHERE r.job_id = s.job_id) AND NOT EXISTS"
    " (SELECT 1 FROM steady_queue_claimedexecution c WHERE c.job_id = s.job_id)"
)
_ORPHANED = (
    " FROM steady_queue_claimedexecution c WHERE NOT EXISTS"
    " (SELECT 1 FROM steady_queue_process p WHERE p.id = c.process_id)"
)


def _look(sql: Dialect, alive: timedelta, keep: timedelta | None) -> Flow[Work]:
    old = (
        "0"
        if keep is None
        else "EXISTS (SELECT 1 FROM steady_queue_job WHERE finished_at IS NOT NULL"
        f" AND finished_at < {sql.ago(keep.total_seconds())})"
    )
    rows = yield sql.say(
        "SELECT EXISTS (SELECT 1 FROM steady_queue_process"
        f" WHERE last_heartbeat_at < {sql.ago(alive.total_seconds())}),"
        f" EXISTS (SELECT 1{_ORPHANED}), EXISTS (SELECT 1{_OWNERLESS}),"
        f" EXISTS (SELECT 1 FROM steady_queue_blockedexecution), {old}",
        returns=".....",
    )
    return Work(*map(bool, rows[0]))


def _find_processes(sql: Dialect) -> Flow[list[Registered]]:
    rows = yield sql.say(f"SELECT {', '.join(Registered._fields)} FROM steady_queue_process", returns="u....t")
    return [Registered._make(row) for row in rows]


def _bury(
    sql: Dialect,
    me: UUID,
    report: Callable[[Registered], ErrorReport],
    alive: timedelta | None,
    only: Collection[UUID] | None,
    limits: Limits,
) -> Flow[Buried | None]:
    if not (yield from sql.try_maintenance()):
        return None
    columns = f"SELECT {', '.join(Registered._fields)} FROM steady_queue_process WHERE id <> ?"
    if only is not None:
        rows = yield sql.say(f"{columns} AND id IN ?* LIMIT 1{sql.take_free}", me, list(only), returns="u....t")
    else:
        cutoff = sql.ago((alive or timedelta(0)).total_seconds())
        rows = yield sql.say(f"{columns} AND last_heartbeat_at < {cutoff} LIMIT 1{sql.take_free}", me, returns="u....t")
    if not rows:
        return None
    process = Registered._make(rows[0])
    jobs = 0
    while claims := (yield from _claims(sql, "c.process_id = ?", process.id)):
        yield from _fail(sql, claims, report(process), process.name, limits)
        jobs += len(claims)
    yield sql.say("DELETE FROM steady_queue_process WHERE id = ?", process.id)
    return Buried(process, jobs)


def _fail_orphans(sql: Dialect, report: ErrorReport, limits: Limits) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    rows = yield sql.say(f"SELECT c.job_id{_ORPHANED} LIMIT ?", BATCH, returns="u")
    if not rows:
        return 0
    ids = [row[0] for row in rows]
    claims = yield from _claims(sql, "c.job_id IN ?*", ids)
    if claims:
        yield from _fail(sql, claims, report, "unknown", limits)
    yield from _forget_jobless(sql, ids)
    return len(claims)


def _forget_jobless(sql: Dialect, job_ids: Sequence[UUID]) -> Flow[None]:
    """Remove claimed rows whose job does not exist: nothing can become of them."""
    rows = yield sql.say("SELECT id FROM steady_queue_job WHERE id IN ?*", list(job_ids), returns="u")
    if gone := set(job_ids) - {row[0] for row in rows}:
        yield sql.say("DELETE FROM steady_queue_claimedexecution WHERE job_id IN ?*", list(gone))


def _claims(sql: Dialect, where: str, value: object) -> Flow[list[Claim]]:
    rows = yield sql.say(
        f"SELECT {_CLAIM_COLUMNS} FROM steady_queue_claimedexecution c JOIN steady_queue_job j ON j.id = c.job_id"
        f" WHERE {where} LIMIT ?",
        value,
        BATCH,
        returns=_CLAIM_TYPES,
    )
    return [Claim._make(row) for row in rows]


def _fail(sql: Dialect, claims: Sequence[Claim], error: ErrorReport, worker_id: str, limits: Limits) -> Flow[None]:
    yield from settle(
        sql, [Failed(claim, error) for claim in claims], worker_id=worker_id, by_owner=False, limits=limits
    ).flow()


def _free_ownerless(sql: Dialect, limits: Limits) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    rows = yield sql.say(f"SELECT s.job_id, s.concurrency_key{_OWNERLESS} LIMIT ?", BATCH, returns="u.")
    if not rows:
        return 0
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [row[0] for row in rows])
    yield from promote(sql, {row[1]: 1 for row in rows}, limits)
    return len(rows)


def _promote_stranded(sql: Dialect, after: str, limits: Limits) -> Flow[tuple[int, str | None]]:
    if not (yield from sql.try_maintenance()):
        return 0, None
    keys: list[str] = []
    last = after
    # One step down the index for each key: the number of jobs behind a key does not matter.
    while len(keys) < BATCH:
        rows: Sequence[Row] = yield sql.say(
            f"SELECT concurrency_key FROM {sql.blocked_by_key} WHERE concurrency_key > ?"
            " ORDER BY concurrency_key LIMIT 1",
            last,
            returns=".",
        )
        if not rows:
            break
        last = rows[0][0]
        keys.append(last)
    limit_of = yield from _largest_limits(sql, keys)
    promoted = yield from promote(sql, {key: limit_of.get(key, 1) for key in keys}, limits)
    return len(promoted), last if len(keys) == BATCH else None


def _largest_limits(sql: Dialect, keys: Sequence[str]) -> Flow[dict[str, int]]:
    limits: dict[str, int] = {}
    for key in keys:
        rows = yield sql.say(
            "SELECT j.concurrency_limit FROM steady_queue_job j WHERE j.id ="
            f" (SELECT job_id FROM {sql.blocked_by_key} WHERE concurrency_key = ?"
            " ORDER BY priority DESC, job_id LIMIT 1)",
            key,
            returns=".",
        )
        if rows:
            limits[key] = rows[0][0] or 1
    return limits


def _clear_finished(sql: Dialect, keep: timedelta, batch: int) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    rows = yield sql.say(
        "SELECT id FROM steady_queue_job WHERE finished_at IS NOT NULL"
        f" AND finished_at < {sql.ago(keep.total_seconds())} ORDER BY finished_at LIMIT ?",
        batch,
        returns="u",
    )
    if rows:
        yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", [row[0] for row in rows])
    return len(rows)


def _own_claims(sql: Dialect, me: UUID) -> Flow[dict[UUID, UUID]]:
    rows = yield sql.say(
        "SELECT claim_id, job_id FROM steady_queue_claimedexecution WHERE process_id = ?", me, returns="uu"
    )
    return {row[0]: row[1] for row in rows}


def _release(sql: Dialect, claims: Mapping[UUID, UUID], worker_id: str) -> Flow[int]:
    ids = list(claims.values())[:BATCH]
    found = yield from _claims(sql, "c.job_id IN ?*", ids)
    lost = [Released(claim) for claim in found if claim.claim_id in claims]
    if lost:
        yield from settle(sql, lost, worker_id=worker_id).flow()
    if len(found) < len(ids):
        yield from _forget_jobless(sql, ids)
    return len(lost)


def _find_waiting(sql: Dialect) -> Flow[list[tuple[str, Lane]]]:
    found: list[tuple[str, Lane]] = []
    last: str | None = None
    while len(found) < 100:
        rows = yield sql.say(
            f"SELECT queue_name FROM {sql.ready_by_queue}"
            f"{' WHERE queue_name > ?' if last is not None else ''} ORDER BY queue_name LIMIT 1",
            *([] if last is None else [last]),
            returns=".",
        )
        if not rows:
            break
        last = rows[0][0]
        for lane in Lane:
            text = f"SELECT lane FROM {sql.ready_by_queue} WHERE queue_name = ? AND lane = ? LIMIT 1"
            if (yield sql.say(text, last, lane, returns=".")):
                found.append((str(last), lane))
    return found
