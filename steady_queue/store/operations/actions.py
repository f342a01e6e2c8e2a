"""Revision: what people do to jobs afterwards. Retry the failed, discard the unwanted."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.store.operations.promote import expected, insert_blocked, make_ready, promote, promotion
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Where a job may stand while it can still be discarded, in the order in which jobs move through them.
DISCARDABLE = ("scheduledexecution", "blockedexecution", "readyexecution", "failedexecution")


class Revised(NamedTuple):
    """Which jobs were changed, which others that made ready, and what is left to do.

    `afterwards` is there when the caller owns the transaction: slots are given out after its commit.
    """

    ids: list[UUID]
    promoted: Sequence[UUID] = ()
    #: Whether there may be something to claim now.
    wakes: bool = False
    afterwards: Operation[Any] | None = None
    #: Where the discarded jobs stood, by the name of their table.
    stood: Mapping[str, Sequence[UUID]] = MappingProxyType({})


UNCHANGED = Revised([])


def retry(
    sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None, *, promoting: bool = True
) -> Operation[Revised]:
    """Run failed jobs again as if they were new: limited ones queue for a slot. Tells those that had failed.

    `promoting` belongs to callers that own the transaction, here and below.
    """
    return Operation("retry", partial(retried, sql, list(dict.fromkeys(ids)), limits or {}, promoting))


def discard(
    sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None, *, promoting: bool = True
) -> Operation[Revised]:
    """Delete jobs that neither run nor have finished, with their slots. Tells those deleted."""
    return Operation("discard", partial(discarded, sql, list(dict.fromkeys(ids)), limits or {}, promoting))


def retried(sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool) -> Flow[Revised]:
    failed = yield from taken(sql, "failedexecution", ids)
    if not failed:
        return UNCHANGED
    yield sql.say("DELETE FROM steady_queue_failedexecution WHERE job_id IN ?*", failed)
    yield sql.say("UPDATE steady_queue_job SET retries = 0 WHERE id IN ?*", failed)
    keys = yield from made_new(sql, failed, limits)
    promoted, afterwards = yield from passed_on(sql, keys, limits, promoting)
    return Revised(failed, promoted, True, afterwards)


def made_new(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[dict[str, int]]:
    """Ready rows, or blocked ones for limited jobs, of jobs that stand nowhere; returns the keys to be promoted."""
    rows = yield sql.say(
        "SELECT id, concurrency_key, concurrency_limit, priority, task_path FROM steady_queue_job WHERE id IN ?*",
        list(ids),
        returns="u....",
    )
    free = [row[0] for row in rows if row[1] is None]
    if free:
        yield make_ready(sql, free)
    limited = [row for row in rows if row[1] is not None]
    if limited:
        yield insert_blocked(sql, [(job_id, key, priority) for job_id, key, _, priority, _ in limited])
    return {key: expected(limits, path, stored) for _, key, stored, _, path in limited}


def passed_on(
    sql: Dialect, keys: Mapping[str, int], limits: Limits, promoting: bool
) -> Flow[tuple[Sequence[UUID], Operation[Any] | None]]:
    """Promote the keys now, or tell what is to be done after the caller's commit."""
    if promoting or not keys:
        return (yield from promote(sql, keys, limits)), None
    return (), promotion(sql, keys, limits)


def discarded(
    sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool, tables: Sequence[str] = DISCARDABLE
) -> Flow[Revised]:
    gone: set[UUID] = set()
    stood: dict[str, Sequence[UUID]] = {}
    for table in tables:
        found = yield from taken(sql, table, [id_ for id_ in ids if id_ not in gone])
        if found:
            yield sql.say(f"DELETE FROM steady_queue_{table} WHERE job_id IN ?*", found)
            gone.update(found)
            stood[table] = found
    if not gone:
        return UNCHANGED
    those = [id_ for id_ in ids if id_ in gone]
    keys = yield from _slots_freed(sql, those, limits)
    yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", those)
    promoted, afterwards = yield from passed_on(sql, keys, limits, promoting)
    return Revised(those, promoted, bool(promoted) or afterwards is not None, afterwards, stood)


def _slots_freed(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[dict[str, int]]:
    """Take the jobs' slots from them; returns their keys, to be promoted."""
    held = yield sql.say(
        "SELECT job_id, concurrency_key FROM steady_queue_semaphore WHERE job_id IN ?*", list(ids), returns="u."
    )
    if not held:
        return {}
    holders = [row[0] for row in held]
    yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", holders)
    rows = yield sql.say(
        "SELECT id, concurrency_limit, task_path FROM steady_queue_job WHERE id IN ?*", holders, returns="u.."
    )
    limit_of = {job_id: expected(limits, path, stored) for job_id, stored, path in rows}
    return {key: limit_of.get(job_id, 1) for job_id, key in held}


def taken(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[list[UUID]]:
    """Those of the jobs that stand in this table, held until the transaction ends."""
    if ids and sql.locks_gaps:
        # Where nothing is found a locking read would keep others from inserting, until the caller's transaction ends.
        rows = yield sql.say(
            f"SELECT job_id FROM steady_queue_{table} WHERE job_id IN ?* ORDER BY job_id", list(ids), returns="u"
        )
        ids = [row[0] for row in rows]
    if not ids:
        return []
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_{table} WHERE job_id IN ?* ORDER BY job_id{sql.take}", list(ids), returns="u"
    )
    return [row[0] for row in rows]
