"""Revision: what people do to jobs afterwards. Retry the failed, discard the unwanted."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.promote import insert_blocked, make_ready, promote
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Where a job may stand while it can still be discarded, in the order in which jobs move through them.
_DISCARDABLE = ("scheduledexecution", "blockedexecution", "readyexecution", "failedexecution")


def retry(sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None) -> Operation[list[UUID]]:
    """Run failed jobs again as if they were new: limited ones queue for a slot. Returns those that had failed."""
    return Operation("retry", partial(_retry, sql, list(dict.fromkeys(ids)), limits or {}))


def discard(sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None) -> Operation[list[UUID]]:
    """Delete jobs that neither run nor have finished, with their slots. Returns those deleted."""
    return Operation("discard", partial(_discard, sql, list(dict.fromkeys(ids)), limits or {}))


def _retry(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[list[UUID]]:
    failed = yield from _taken(sql, "failedexecution", ids)
    if not failed:
        return []
    rows = yield sql.say(
        "SELECT id, concurrency_key, concurrency_limit, priority FROM steady_queue_job WHERE id IN ?*",
        failed,
        returns="u...",
    )
    yield sql.say("DELETE FROM steady_queue_failedexecution WHERE job_id IN ?*", failed)
    yield sql.say("UPDATE steady_queue_job SET retries = 0 WHERE id IN ?*", failed)
    free = [row[0] for row in rows if row[1] is None]
    if free:
        yield make_ready(sql, free)
    limited = [row for row in rows if row[1] is not None]
    if limited:
        yield insert_blocked(sql, [(job_id, key, priority) for job_id, key, _, priority in limited])
        yield from promote(sql, {key: limit or 1 for _, key, limit, _ in limited}, limits)
    return [row[0] for row in rows]


def _discard(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[list[UUID]]:
    found: list[UUID] = []
    gone: set[UUID] = set()
    for table in _DISCARDABLE:
        taken = yield from _taken(sql, table, [id_ for id_ in ids if id_ not in gone])
        if taken:
            yield sql.say(f"DELETE FROM steady_queue_{table} WHERE job_id IN ?*", taken)
            found.extend(taken)
            gone.update(taken)
    if not found:
        return []
    held = yield sql.say(
        "SELECT s.concurrency_key, j.concurrency_limit FROM steady_queue_semaphore s"
        " JOIN steady_queue_job j ON j.id = s.job_id WHERE s.job_id IN ?*",
        found,
        returns="..",
    )
    if held:
        yield sql.say("DELETE FROM steady_queue_semaphore WHERE job_id IN ?*", found)
    yield sql.say("DELETE FROM steady_queue_job WHERE id IN ?*", found)
    yield from promote(sql, {key: limit or 1 for key, limit in held}, limits)
    return [id_ for id_ in ids if id_ in gone]


def _taken(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[list[UUID]]:
    """Those of the jobs that stand in this table, held until the transaction ends."""
    if not ids:
        return []
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_{table} WHERE job_id IN ?* ORDER BY job_id{sql.take}", list(ids), returns="u"
    )
    return [row[0] for row in rows]
