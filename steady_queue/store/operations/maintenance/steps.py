"""Maintenance: steps that repair the queue when processes die, and delete old jobs. By the database's time.

Each step is one short transaction that begins with a try-lock, so that of many processes one runs it and none waits.

Overrun: where its limit says so, a job that runs longer than the limit's duration loses its slot. The job continues,
and another one of its key may start. If its claim is released, settle finds it without a slot: see settle.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.actions import cleanup
from steady_queue.store.operations.actions.cancellation import from_unclaimed_requests
from steady_queue.store.operations.actions.cleanup import CleanupPosition, EndedFilter
from steady_queue.store.operations.maintenance.statistics import foldable_minutes, old_hours
from steady_queue.store.operations.processes.prune import BATCH_ROWS, from_orphans
from steady_queue.store.operations.processes.requests import from_old_requests, from_open_requests
from steady_queue.store.operations.promote import NO_LIMITS, find_blocked_keys, limit_in_force, promote
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.operations.actions.cleanup import ClearedWindow
    from steady_queue.store.operations.promote import ByTaskPath, Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Where clearing begins.
FIRST = CleanupPosition()
#: Queues and lanes that `find_waiting_lanes` returns at most, except for further lanes of the last queue.
MAX_WAITING_LANES = 100


class Work(NamedTuple):
    """What a maintenance turn has to do, found by one statement."""

    dead: bool
    orphans: bool
    ownerless: bool
    overrun: bool
    blocked: bool
    old: bool
    old_failed: bool
    expired: bool = False
    requests: bool = False
    keys: bool = False
    old_requests: bool = False
    #: Requests to the process that looks, or to its supervisor.
    own_requests: bool = False
    minutes: bool = False
    old_hours: bool = False


class OverrunJob(NamedTuple):
    """A job that runs without its slot."""

    job_id: UUID
    task_path: str
    concurrency_key: str


@operation(transaction=False)
def find_work(
    sql: Dialect,
    *,
    alive: timedelta,
    keep: timedelta | None,
    keep_failed: timedelta | None = None,
    keep_hours: timedelta | None = None,
    asked: Sequence[UUID] = (),
) -> Flow[Work]:
    """Whether there is anything to do.

    `keep`: how long finished jobs are kept, and failed ones, and the statistics of hours; None for ever. `asked`: the
    processes whose requests are of interest.
    """

    def exists_old(source: str, column: str, span: timedelta | None) -> str:
        if span is None:
            return "0"
        return f"EXISTS (SELECT 1 FROM {source} {column} < {sql.ago(span.total_seconds())})"

    old = exists_old("steady_queue_job WHERE finished_at IS NOT NULL AND", "finished_at", keep)
    old_failed = exists_old("steady_queue_failedexecution WHERE", "failed_at", keep_failed)
    own = f"EXISTS (SELECT 1{from_open_requests()})" if asked else "0"
    hours = "0"
    if keep_hours is not None:
        hours = f"EXISTS (SELECT 1 FROM {sql.statistics_by_time} WHERE {old_hours(sql, keep_hours)})"
    rows = yield sql.statement(
        "SELECT EXISTS (SELECT 1 FROM steady_queue_process"
        f" WHERE last_heartbeat_at < {sql.ago(alive.total_seconds())}),"
        f" EXISTS (SELECT 1{from_orphans(sql)}), EXISTS (SELECT 1{_from_ownerless(sql)}),"
        f" EXISTS (SELECT 1{_from_overrun(sql)}),"
        f" EXISTS (SELECT 1 FROM steady_queue_blockedexecution), {old}, {old_failed},"
        f" EXISTS (SELECT 1 FROM {sql.expiry_by_time} WHERE expires_at <= {sql.now}),"
        f" EXISTS (SELECT 1{from_unclaimed_requests(sql)}),"
        " EXISTS (SELECT 1 FROM steady_queue_uniquekey),"
        f" EXISTS (SELECT 1{from_old_requests(sql)}), {own},"
        f" EXISTS (SELECT 1 FROM {sql.statistics_by_time} WHERE {foldable_minutes(sql)}), {hours}",
        *([list(asked)] if asked else []),
        returns="." * len(Work._fields),
    )
    return Work(*map(bool, rows[0]))


@operation()
def release_overrun_slots(
    sql: Dialect, limits: Limits = NO_LIMITS, *, promoting: bool = True
) -> Flow[list[OverrunJob]]:
    """Delete the slots of jobs that have run longer than their limit allows, and promote the keys if `promoting`."""
    if not (yield from sql.try_maintenance()):
        return []
    rows = yield sql.statement(f"SELECT s.job_id{_from_overrun(sql)} LIMIT ?", BATCH_ROWS, returns="u")
    if not rows:
        return []
    # Locked, so that no process releases the claim with the slot that it loses here; claims being settled are skipped.
    ids = [row[0] for row in rows]
    rows = yield sql.lock("claimedexecution", "job_id", ids, skip_locked=True, is_ordered=True, returns="u")
    if not rows:
        return []
    # Read again: the job may have been released and claimed again before its row was locked.
    rows = yield sql.statement(
        f"SELECT s.job_id, j.task_path, s.concurrency_key, j.concurrency_limit{_from_overrun(sql)} AND s.job_id IN ?*",
        [row[0] for row in rows],
        returns="u..i",
    )
    if not rows:
        return []
    yield sql.delete("semaphore", [row[0] for row in rows])
    if promoting:
        keys = {key: limit_in_force(limits, path, stored) for _, path, key, stored in rows}
        yield from promote.flow(sql, keys, limits)
    return [OverrunJob(job_id, path, key) for job_id, path, key, _ in rows]


@operation()
def free_ownerless(
    sql: Dialect,
    *,
    after: timedelta,
    durations: ByTaskPath[timedelta],
    limits: Limits = NO_LIMITS,
    promoting: bool = True,
) -> Flow[int]:
    """Delete slots whose job is neither ready nor claimed, taken longer ago than the duration of the task's limit.

    `after` applies to tasks that the code does not know. The keys are promoted if `promoting`.
    """
    if not (yield from sql.try_maintenance()):
        return 0
    rows = yield sql.statement(
        "SELECT s.job_id, s.concurrency_key, s.acquired_at,"
        f" (SELECT j.task_path FROM steady_queue_job j{sql.by_id} WHERE j.id = s.job_id), {sql.now}"
        f"{_from_ownerless(sql)} ORDER BY s.acquired_at LIMIT ?",
        BATCH_ROWS,
        returns="u.t.t",
    )
    old = [(row[0], row[1]) for row in rows if row[4] - row[2] >= durations.get(row[3], after)]
    if not old:
        return 0
    yield sql.delete("semaphore", [job_id for job_id, _ in old])
    if promoting:
        yield from promote.flow(sql, dict.fromkeys((key for _, key in old), 1), limits)
    return len(old)


@operation()
def promote_stranded(sql: Dialect, after: str = "", limits: Limits = NO_LIMITS) -> Flow[tuple[int, str | None]]:
    """Promote the next keys with blocked jobs, in order after `after`; returns the count, and the last key or None."""
    if not (yield from sql.try_maintenance()):
        return 0, None
    keys = yield from find_blocked_keys.flow(sql, after, BATCH_ROWS)
    # Most keys have no free slot: their turn ends at once. The others read more jobs until one finds no slot.
    promoted = yield from promote.flow(sql, dict.fromkeys(keys, 1), limits)
    return len(promoted), keys[-1] if len(keys) == BATCH_ROWS else None


@operation()
def clear_finished(
    sql: Dialect, keep: timedelta, position: CleanupPosition = FIRST, batch: int = BATCH_ROWS
) -> Flow[ClearedWindow | None]:
    """Delete jobs that finished longer than `keep` ago, from a position on; None if another process is maintaining."""
    if not (yield from sql.try_maintenance()):
        return None
    return (yield from cleanup.clear_finished.flow(sql, EndedFilter(keep), position, batch))


@operation()
def clear_failed(
    sql: Dialect, keep: timedelta, position: CleanupPosition = FIRST, batch: int = BATCH_ROWS
) -> Flow[ClearedWindow | None]:
    """Delete jobs that failed longer than `keep` ago, from a position on; None if another process is maintaining."""
    if not (yield from sql.try_maintenance()):
        return None
    return (yield from cleanup.clear_failed.flow(sql, EndedFilter(keep), position, batch))


@operation(transaction=False)
def find_waiting_lanes(sql: Dialect) -> Flow[list[tuple[str, int]]]:
    """The queues and lanes that have ready jobs; also lanes that this version does not know."""
    found: list[tuple[str, int]] = []
    last: str | None = None
    while len(found) < MAX_WAITING_LANES:
        rows = yield sql.statement(
            f"SELECT queue_name FROM {sql.ready_by_queue}"
            f"{' WHERE queue_name > ?' if last is not None else ''} ORDER BY queue_name LIMIT 1",
            *([] if last is None else [last]),
            returns=".",
        )
        if not rows:
            break
        last = rows[0][0]
        found += yield from _find_lanes(sql, str(last))
    return found


def _find_lanes(sql: Dialect, queue: str) -> Flow[list[tuple[str, int]]]:
    """The queue with each lane of its ready jobs, also with unknown ones."""
    first = f"SELECT lane FROM {sql.ready_by_queue} WHERE queue_name = ?"
    rows = yield sql.statement(f"{first} ORDER BY lane LIMIT 1", queue, returns=".")
    found: list[tuple[str, int]] = []
    while rows:
        lane = int(rows[0][0])
        found.append((queue, lane))
        rows = yield sql.statement(f"{first} AND lane > ? ORDER BY lane LIMIT 1", queue, lane, returns=".")
    return found


def _from_overrun(sql: Dialect) -> str:
    """The slots, claims and jobs of jobs that have run longer than their limit allows."""
    return (
        " FROM steady_queue_semaphore s JOIN steady_queue_claimedexecution c ON c.job_id = s.job_id"
        " JOIN steady_queue_job j ON j.id = s.job_id WHERE j.overrun_after >= 0"
        f" AND c.claimed_at < {sql.column_ago('j.overrun_after')}"
    )


def _from_ownerless(sql: Dialect) -> str:
    """The slots whose job is neither ready nor claimed."""
    return (
        " FROM steady_queue_semaphore s WHERE NOT EXISTS"
        f" (SELECT 1 FROM steady_queue_readyexecution r{sql.by_id} WHERE r.job_id = s.job_id) AND NOT EXISTS"
        f" (SELECT 1 FROM steady_queue_claimedexecution c{sql.by_id} WHERE c.job_id = s.job_id)"
    )
