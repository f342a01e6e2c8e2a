"""Hurry: jobs that wait, for their time or for a slot, run now because somebody said so.

A scheduled job becomes ready, or queues for a slot when it is limited. A blocked one gets a slot beside those that its
limit allows: it counts like any other, so that nothing else of its key is promoted until there is room again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.operations.actions import UNCHANGED, Revised, made_new, taken
from steady_queue.store.operations.promote import Grant, give, lock_id, promote
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: Slots given by hand have larger numbers: above every limit there is, so that they can be told from the others.
BY_HAND = 2**30


def run_now(
    sql: Dialect,
    ids: Sequence[UUID],
    limits: Limits | None = None,
    *,
    promoting: bool = True,
    blocked_too: bool = True,
) -> Operation[Revised]:
    """Let scheduled and blocked jobs run now. Tells those that were either.

    In somebody else's transaction no slot is taken: there the blocked ones follow after its commit. Who cannot know
    when that is leaves them alone: `blocked_too` is false.
    """
    flow = partial(_run_now, sql, list(dict.fromkeys(ids)), limits or {}, promoting, blocked_too)
    return Operation("run now", flow)


def _run_now(sql: Dialect, ids: Sequence[UUID], limits: Limits, promoting: bool, blocked_too: bool) -> Flow[Revised]:
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
        return Revised([*scheduled, *blocked], (), True, afterwards if blocked or keys else None)
    given, promoted = yield from _give_out(sql, blocked, keys, limits)
    return Revised([*scheduled, *given], promoted, True)


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
        highest[key] = max(slot, highest.get(key, BY_HAND))
    grants = []
    for id_ in waiting:
        key = blocked[id_]
        highest[key] = highest.get(key, BY_HAND) + 1
        grants.append(Grant(id_, key, highest[key]))
    yield from give(sql, grants)
    return waiting
