"""Maintenance: what keeps the queue whole when processes die. Small steps, by the database's time.

Each step is one short transaction that begins with a try-lock, so that of many processes one does it and none waits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.burial import BATCH, ORPHANED
from steady_queue.store.cleanup import Old, Place, failed_cleared, finished_cleared
from steady_queue.store.job import Lane
from steady_queue.store.promote import promote
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from steady_queue.store.cleanup import Cleared
    from steady_queue.store.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow, Row


class Work(NamedTuple):
    """What a maintenance turn has to do, found with one statement."""

    dead: bool
    orphans: bool
    ownerless: bool
    blocked: bool
    old: bool
    old_failed: bool


def look(
    sql: Dialect, *, alive: timedelta, keep: timedelta | None, keep_failed: timedelta | None = None
) -> Operation[Work]:
    """Whether there is anything to do. `keep`: how long finished jobs are kept, and failed ones; None for ever."""
    return Operation("look", partial(_look, sql, alive, keep, keep_failed), transaction=False)


def free_ownerless(sql: Dialect, limits: Limits | None = None) -> Operation[int]:
    """Free slots whose job is neither ready nor claimed."""
    return Operation("free ownerless slots", partial(_free_ownerless, sql, limits or {}))


def promote_stranded(sql: Dialect, after: str = "", limits: Limits | None = None) -> Operation[tuple[int, str | None]]:
    """Promote the next keys with blocked jobs, in order from `after`; returns the count, and where to go on or None."""
    return Operation("promote stranded", partial(_promote_stranded, sql, after, limits or {}))


def clear_finished(sql: Dialect, keep: timedelta, batch: int = BATCH) -> Operation[int]:
    """Delete jobs that finished longer than `keep` ago."""
    return Operation("clear finished", partial(_clear, sql, finished_cleared, keep, batch))


def clear_failed(sql: Dialect, keep: timedelta, batch: int = BATCH) -> Operation[int]:
    """Delete jobs that failed longer than `keep` ago."""
    return Operation("clear failed", partial(_clear, sql, failed_cleared, keep, batch))


def find_waiting(sql: Dialect) -> Operation[list[tuple[str, Lane]]]:
    """The queues and lanes that have ready jobs, at most 100 of them."""
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
        f" EXISTS (SELECT 1{ORPHANED}), EXISTS (SELECT 1{_OWNERLESS}),"
        f" EXISTS (SELECT 1 FROM steady_queue_blockedexecution), {old}, {old_failed}",
        returns="......",
    )
    return Work(*map(bool, rows[0]))


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


def _clear(
    sql: Dialect, cleared: Callable[[Dialect, Old, Place, int], Flow[Cleared]], keep: timedelta, batch: int
) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    return (yield from cleared(sql, Old(keep), Place(), batch)).jobs


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
