"""Maintenance: what keeps the queue whole when processes die. Small steps, by the database's time.

Each step is one short transaction that begins with a try-lock, so that of many processes one does it and none waits.

Overrun: a job that runs longer than its limit's duration lets its slot go, where its limit says so.

It goes on, and another of its key may start beside it. Who gives it back finds it without a slot: see settle.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.operations.cleanup import CleanupPosition, EndedFilter, failed_cleared, finished_cleared
from steady_queue.store.operations.promote import find_blocked_keys, limit_in_force, promote
from steady_queue.store.operations.prune import BATCH_ROWS, ORPHANED
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.operations.cleanup import ClearedWindow
    from steady_queue.store.operations.promote import ByTaskPath, Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class OverrunJob(NamedTuple):
    """A job that runs on without its slot."""

    job_id: UUID
    task_path: str
    concurrency_key: str


def release_overrun_slots(
    sql: Dialect, limits: Limits | None = None, *, promoting: bool = True
) -> Operation[list[OverrunJob]]:
    """Take the slots of jobs that have run for longer than theirs allow, and promote their keys unless told not to."""
    return Operation("let go", partial(_let_go, sql, limits or {}, promoting))


def overrun(sql: Dialect) -> str:
    """Where the slots, the claims and the jobs are that this is about."""
    return (
        " FROM steady_queue_semaphore s JOIN steady_queue_claimedexecution c ON c.job_id = s.job_id"
        " JOIN steady_queue_job j ON j.id = s.job_id WHERE j.overrun_after >= 0"
        f" AND c.claimed_at < {sql.microseconds_ago('j.overrun_after')}"
    )


def _let_go(sql: Dialect, limits: Limits, promoting: bool) -> Flow[list[OverrunJob]]:
    if not (yield from sql.try_maintenance()):
        return []
    rows = yield sql.say(f"SELECT s.job_id{overrun(sql)} LIMIT ?", BATCH_ROWS, returns="u")
    if not rows:
        return []
    # Held, so that it is not given back meanwhile with the slot that it loses here; who is just being settled is left.
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_claimedexecution WHERE job_id IN ?* ORDER BY job_id{sql.take_free}",
        [row[0] for row in rows],
        returns="u",
    )
    if not rows:
        return []
    # Once more: it may have been given back and claimed anew before it was held.
    rows = yield sql.say(
        f"SELECT s.job_id, j.task_path, s.concurrency_key, j.concurrency_limit{overrun(sql)} AND s.job_id IN ?*",
        [row[0] for row in rows],
        returns="u..i",
    )
    if not rows:
        return []
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [row[0] for row in rows])
    if promoting:
        yield from promote(sql, {key: limit_in_force(limits, path, stored) for _, path, key, stored in rows}, limits)
    return [OverrunJob(job_id, path, key) for job_id, path, key, _ in rows]


#: Where clearing begins.
FIRST = CleanupPosition()


class Work(NamedTuple):
    """What a maintenance turn has to do, found with one statement."""

    dead: bool
    orphans: bool
    ownerless: bool
    overrun: bool
    blocked: bool
    old: bool
    old_failed: bool


def find_work(
    sql: Dialect, *, alive: timedelta, keep: timedelta | None, keep_failed: timedelta | None = None
) -> Operation[Work]:
    """Whether there is anything to do. `keep`: how long finished jobs are kept, and failed ones; None for ever."""
    return Operation("look", partial(_look, sql, alive, keep, keep_failed), transaction=False)


def free_ownerless(
    sql: Dialect,
    *,
    after: timedelta,
    durations: ByTaskPath[timedelta],
    limits: Limits | None = None,
    promoting: bool = True,
) -> Operation[int]:
    """Free slots whose job is neither ready nor claimed, and which were taken longer ago than the duration of its task.

    `after` serves for tasks that the code does not know. Their keys are promoted unless told not to.
    """
    return Operation("free ownerless slots", partial(_free_ownerless, sql, after, durations, limits or {}, promoting))


def promote_stranded(sql: Dialect, after: str = "", limits: Limits | None = None) -> Operation[tuple[int, str | None]]:
    """Promote the next keys with blocked jobs, in order from `after`; returns the count, and where to go on or None."""
    return Operation("promote stranded", partial(_promote_stranded, sql, after, limits or {}))


def clear_finished(
    sql: Dialect, keep: timedelta, place: CleanupPosition = FIRST, batch: int = BATCH_ROWS
) -> Operation[ClearedWindow | None]:
    """Delete jobs that finished longer than `keep` ago, from a place on; None: another process is maintaining."""
    return Operation("clear finished", partial(_clear, sql, finished_cleared, keep, place, batch))


def clear_failed(
    sql: Dialect, keep: timedelta, place: CleanupPosition = FIRST, batch: int = BATCH_ROWS
) -> Operation[ClearedWindow | None]:
    """Delete jobs that failed longer than `keep` ago, from a place on; None: another process is maintaining."""
    return Operation("clear failed", partial(_clear, sql, failed_cleared, keep, place, batch))


def find_waiting_lanes(sql: Dialect) -> Operation[list[tuple[str, int]]]:
    """The queues and lanes that have ready jobs, at most 100 of them; also lanes that this version does not know."""
    return Operation("find waiting", partial(_find_waiting, sql), transaction=False)


_OWNERLESS = (
    " FROM steady_queue_semaphore s WHERE NOT EXISTS"
    " (SELECT 1 FROM steady_queue_readyexecution r WHERE r.job_id = s.job_id) AND NOT EXISTS"
    " (SELECT 1 FROM steady_queue_claimedexecution c WHERE c.job_id = s.job_id)"
)


def _look(sql: Dialect, alive: timedelta, keep: timedelta | None, keep_failed: timedelta | None) -> Flow[Work]:
    def any_old(source: str, column: str, span: timedelta | None) -> str:
        if span is None:
            return "0"
        return f"EXISTS (SELECT 1 FROM {source} {column} < {sql.ago(span.total_seconds())})"

    old = any_old("steady_queue_job WHERE finished_at IS NOT NULL AND", "finished_at", keep)
    old_failed = any_old("steady_queue_failedexecution WHERE", "failed_at", keep_failed)
    rows = yield sql.say(
        "SELECT EXISTS (SELECT 1 FROM steady_queue_process"
        f" WHERE last_heartbeat_at < {sql.ago(alive.total_seconds())}),"
        f" EXISTS (SELECT 1{ORPHANED}), EXISTS (SELECT 1{_OWNERLESS}), EXISTS (SELECT 1{overrun(sql)}),"
        f" EXISTS (SELECT 1 FROM steady_queue_blockedexecution), {old}, {old_failed}",
        returns=".......",
    )
    return Work(*map(bool, rows[0]))


def _free_ownerless(
    sql: Dialect, after: timedelta, durations: ByTaskPath[timedelta], limits: Limits, promoting: bool
) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    rows = yield sql.say(
        "SELECT s.job_id, s.concurrency_key, s.acquired_at,"
        f" (SELECT j.task_path FROM steady_queue_job j WHERE j.id = s.job_id), {sql.now}{_OWNERLESS}"
        " ORDER BY s.acquired_at LIMIT ?",
        BATCH_ROWS,
        returns="u.t.t",
    )
    old = [(row[0], row[1]) for row in rows if row[4] - row[2] >= durations.get(row[3], after)]
    if not old:
        return 0
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", [job_id for job_id, _ in old])
    if promoting:
        yield from promote(sql, dict.fromkeys((key for _, key in old), 1), limits)
    return len(old)


def _promote_stranded(sql: Dialect, after: str, limits: Limits) -> Flow[tuple[int, str | None]]:
    if not (yield from sql.try_maintenance()):
        return 0, None
    keys = yield from find_blocked_keys(sql, after, BATCH_ROWS)
    # Most keys are full, and their next job is refused at once; the others ask for more until they are full as well.
    promoted = yield from promote(sql, dict.fromkeys(keys, 1), limits)
    return len(promoted), keys[-1] if len(keys) == BATCH_ROWS else None


def _clear(
    sql: Dialect,
    cleared: Callable[[Dialect, EndedFilter, CleanupPosition, int], Flow[ClearedWindow]],
    keep: timedelta,
    place: CleanupPosition,
    batch: int,
) -> Flow[ClearedWindow | None]:
    if not (yield from sql.try_maintenance()):
        return None
    return (yield from cleared(sql, EndedFilter(keep), place, batch))


def _find_waiting(sql: Dialect) -> Flow[list[tuple[str, int]]]:
    found: list[tuple[str, int]] = []
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
        found += yield from _find_lanes(sql, str(last))
    return found


def _find_lanes(sql: Dialect, queue: str) -> Flow[list[tuple[str, int]]]:
    """The queue with each lane of its ready jobs, whatever number that is."""
    first = f"SELECT lane FROM {sql.ready_by_queue} WHERE queue_name = ?"
    rows = yield sql.say(f"{first} ORDER BY lane LIMIT 1", queue, returns=".")
    found: list[tuple[str, int]] = []
    while rows:
        lane = int(rows[0][0])
        found.append((queue, lane))
        rows = yield sql.say(f"{first} AND lane > ? ORDER BY lane LIMIT 1", queue, lane, returns=".")
    return found
