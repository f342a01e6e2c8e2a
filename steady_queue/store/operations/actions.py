"""Revision: what people do to jobs afterwards. Retry the failed, discard the unwanted.

Hurry: jobs that wait, for their time or for a slot, run now because somebody said so.

A scheduled job becomes ready, or queues for a slot when it is limited. A blocked one gets a slot beside those that its
limit allows: it counts like any other, so that nothing else of its key is promoted until there is room again.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.store.operations.promote import (
    Grant,
    grant_slots,
    insert_blocked,
    limit_in_force,
    lock_id,
    make_ready,
    promote,
    promotion,
)
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Where a job may stand while it can still be discarded, in the order in which jobs move through them.
DISCARDABLE = ("scheduledexecution", "blockedexecution", "readyexecution", "failedexecution")


class ActionResult(NamedTuple):
    """Which jobs were changed, which others that made ready, and what is left to do.

    `afterwards` is there when the caller owns the transaction: slots are given out after its commit.
    """

    ids: list[UUID]
    promoted: Sequence[UUID] = ()
    #: Whether there may be something to claim now.
    wakes_workers: bool = False
    after_commit: Operation[Any] | None = None
    #: Where the discarded jobs stood, by the name of their table.
    discarded_from: Mapping[str, Sequence[UUID]] = MappingProxyType({})


UNCHANGED = ActionResult([])


def retry(
    sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None, *, promoting: bool = True
) -> Operation[ActionResult]:
    """Run failed jobs again as if they were new: limited ones queue for a slot. Tells those that had failed.

    `promoting` belongs to callers that own the transaction, here and below.
    """
    return Operation("retry", partial(retried, sql, list(dict.fromkeys(ids)), limits or {}, promoting))


def discard(
    sql: Dialect, ids: Sequence[UUID], limits: Limits | None = None, *, promoting: bool = True
) -> Operation[ActionResult]:
    """Delete jobs that neither run nor have finished, with their slots. Tells those deleted."""
    return Operation("discard", partial(discarded, sql, list(dict.fromkeys(ids)), limits or {}, promoting))


def retried(sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool) -> Flow[ActionResult]:
    failed = yield from taken(sql, "failedexecution", ids)
    if not failed:
        return UNCHANGED
    yield sql.say("DELETE FROM steady_queue_failedexecution WHERE job_id IN ?*", failed)
    yield sql.say("UPDATE steady_queue_job SET retries = 0 WHERE id IN ?*", failed)
    keys = yield from made_new(sql, failed, limits)
    promoted, afterwards = yield from passed_on(sql, keys, limits, promoting)
    return ActionResult(failed, promoted, True, afterwards)


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
    return {key: limit_in_force(limits, path, stored) for _, key, stored, _, path in limited}


def passed_on(
    sql: Dialect, keys: Mapping[str, int], limits: Limits, promoting: bool
) -> Flow[tuple[Sequence[UUID], Operation[Any] | None]]:
    """Promote the keys now, or tell what is to be done after the caller's commit."""
    if promoting or not keys:
        return (yield from promote(sql, keys, limits)), None
    return (), promotion(sql, keys, limits)


def discarded(
    sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool, tables: Sequence[str] = DISCARDABLE
) -> Flow[ActionResult]:
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
    return ActionResult(those, promoted, bool(promoted) or afterwards is not None, afterwards, stood)


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
    limit_of = {job_id: limit_in_force(limits, path, stored) for job_id, stored, path in rows}
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


#: Capacity given by hand have larger numbers: above every limit there is, so that they can be told from the others.
MANUAL_SLOT_BASE = 2**30


def run_now(
    sql: Dialect,
    ids: Sequence[UUID],
    limits: Limits | None = None,
    *,
    promoting: bool = True,
    blocked_too: bool = True,
) -> Operation[ActionResult]:
    """Let scheduled and blocked jobs run now. Tells those that were either.

    In somebody else's transaction no slot is taken: there the blocked ones follow after its commit. Who cannot know
    when that is leaves them alone: `blocked_too` is false.
    """
    flow = partial(_run_now, sql, list(dict.fromkeys(ids)), limits or {}, promoting, blocked_too)
    return Operation("run now", flow)


def _run_now(
    sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool, blocked_too: bool
) -> Flow[ActionResult]:
    scheduled = yield from taken(sql, "scheduledexecution", ids)
    keys: dict[str, int] = {}
    if scheduled:
        yield sql.say("DELETE FROM steady_queue_scheduledexecution WHERE job_id IN ?*", scheduled)
    moved = set(scheduled)
    blocked = yield from _blocked(sql, [id_ for id_ in ids if id_ not in moved] if blocked_too else [])
    if scheduled:
        keys = yield from made_new(sql, scheduled, limits)
    if not scheduled and not blocked:
        return UNCHANGED
    if not promoting:
        afterwards = Operation("run now after commit", partial(_give_out, sql, blocked, keys, limits))
        return ActionResult([*scheduled, *blocked], (), True, afterwards if blocked or keys else None)
    given, promoted = yield from _give_out(sql, blocked, keys, limits)
    return ActionResult([*scheduled, *given], promoted, True)


def _blocked(sql: Dialect, ids: Sequence[UUID]) -> Flow[dict[UUID, str]]:
    """Those of the jobs that are blocked, with their keys."""
    if not ids:
        return {}
    rows = yield sql.say(
        "SELECT job_id, concurrency_key FROM steady_queue_blockedexecution WHERE job_id IN ?*", list(ids), returns="u."
    )
    return {row[0]: row[1] for row in rows}


def _give_out(
    sql: Dialect, blocked: Mapping[UUID, str], keys: Mapping[str, int], limits: Limits
) -> Flow[tuple[list[UUID], list[UUID]]]:
    """Slots by hand for blocked jobs, and a promotion of other keys; returns who got the first and the second."""
    if blocked:
        # All at once and ascending, those of the promotion too: which then finds them held by us.
        yield from sql.lock_keys(sorted({lock_id(key) for key in (*blocked.values(), *keys)}))
    given = yield from _give_by_hand(sql, blocked) if blocked else _nobody()
    return given, (yield from promote(sql, keys, limits))


def _nobody() -> Flow[list[UUID]]:
    yield from ()
    return []


def _give_by_hand(sql: Dialect, blocked: Mapping[UUID, str]) -> Flow[list[UUID]]:
    # Whoever holds such a row discards it, and may be waiting for the lock of its key: nothing is waited for here.
    rows = yield sql.say(
        f"SELECT job_id FROM steady_queue_blockedexecution WHERE job_id IN ?* ORDER BY job_id{sql.take_free}",
        list(blocked),
        returns="u",
    )
    waiting = [row[0] for row in rows]
    if not waiting:
        return []
    rows = yield sql.say(
        "SELECT concurrency_key, slot FROM steady_queue_semaphore WHERE concurrency_key IN ?*",
        list({blocked[id_] for id_ in waiting}),
        returns="..",
    )
    highest: dict[str, int] = {}
    for key, slot in rows:
        highest[key] = max(slot, highest.get(key, MANUAL_SLOT_BASE))
    grants = []
    for id_ in waiting:
        key = blocked[id_]
        highest[key] = highest.get(key, MANUAL_SLOT_BASE) + 1
        grants.append(Grant(id_, key, highest[key]))
    yield from grant_slots(sql, grants)
    return waiting
