"""Manual actions: retry failed jobs, discard jobs that do not run, run waiting jobs now.

`run_now` makes a scheduled job ready, or blocked when it is limited. A blocked job gets a slot above those that its
limit allows: the slot counts like any other, so that no other job of its key is promoted until there is a free slot.

`owns_transaction`: whether the transaction is Steady Queue's own. Inside one of the application no slot is granted: the
result has an operation to run after the commit.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from steady_queue.store.operations.promote import (
    NO_LIMITS,
    Grant,
    grant_slots,
    insert_blocked,
    insert_ready,
    limit_in_force,
    lock_id,
    promote,
)
from steady_queue.store.operations.uniqueness.displacement import retake_keys
from steady_queue.store.operations.uniqueness.unique_keys import free_keys
from steady_queue.store.statement import Operation, operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The execution tables of jobs that wait, in the order in which jobs move through them.
WAITING = ("scheduledexecution", "blockedexecution", "readyexecution")
#: Those of jobs that can be discarded.
DISCARDABLE = (*WAITING, "failedexecution")
#: Slots granted by `run_now` have larger numbers: above every limit, so that they differ from promoted slots.
MANUAL_SLOT_BASE = 2**30


class ActionResult(NamedTuple):
    """The jobs that were changed, the jobs that this made ready, and what is left to do."""

    ids: list[UUID]
    promoted: Sequence[UUID] = ()
    #: Whether jobs may have become ready, so that workers are to be woken.
    wakes_workers: bool = False
    #: Set inside a transaction of the application: slots are granted after its commit.
    after_commit: Operation[Any] | None = None
    #: The jobs that were not retried because other jobs have their unique keys; each with the other.
    displaced: Mapping[UUID, UUID] = MappingProxyType({})
    #: The discarded jobs by their execution table.
    discarded_from: Mapping[str, Sequence[UUID]] = MappingProxyType({})


UNCHANGED = ActionResult([])


@operation()
def retry(
    sql: Dialect, ids: Sequence[UUID], limits: Limits = NO_LIMITS, *, owns_transaction: bool = True
) -> Flow[ActionResult]:
    """Run failed jobs again as if they were new: limited ones wait for a slot. Returns those that had failed.

    Those whose unique keys other jobs have stay failed.
    """
    failed = yield from lock_executions(sql, "failedexecution", list(dict.fromkeys(ids)))
    displaced = yield from retake_keys(sql, failed, owns_transaction=owns_transaction)
    failed = [id_ for id_ in failed if id_ not in displaced]
    if not failed:
        return ActionResult([], displaced=displaced)
    yield sql.delete("failedexecution", failed)
    # A request to cancel an earlier attempt, which ended before it was cancelled.
    yield from delete_if_any(sql, "cancellation", failed)
    yield sql.statement(f"UPDATE steady_queue_job{sql.by_id} SET retries = 0, expires_at = NULL WHERE id IN ?*", failed)
    keys = yield from _insert_first_executions(sql, failed, limits)
    promoted, after_commit = yield from promote_or_defer(sql, keys, limits, owns_transaction)
    return ActionResult(failed, promoted, True, after_commit, displaced)


@operation()
def discard(
    sql: Dialect,
    ids: Sequence[UUID],
    limits: Limits = NO_LIMITS,
    *,
    owns_transaction: bool = True,
    tables: Sequence[str] = DISCARDABLE,
) -> Flow[ActionResult]:
    """Delete jobs that neither run nor have finished, with their slots. Returns those deleted."""
    ids = list(dict.fromkeys(ids))
    deleted: set[UUID] = set()
    discarded_from: dict[str, Sequence[UUID]] = {}
    for table in tables:
        found = yield from lock_executions(sql, table, [id_ for id_ in ids if id_ not in deleted])
        if found:
            yield sql.delete(table, found)
            deleted.update(found)
            discarded_from[table] = found
    if not deleted:
        return UNCHANGED
    discarded = [id_ for id_ in ids if id_ in deleted]
    keys = yield from free_slots(sql, discarded, limits)
    yield from free_keys(sql, discarded, owns_transaction=owns_transaction)
    yield sql.delete("job", discarded)
    promoted, after_commit = yield from promote_or_defer(sql, keys, limits, owns_transaction)
    wakes = bool(promoted) or after_commit is not None
    return ActionResult(discarded, promoted, wakes, after_commit, discarded_from=discarded_from)


@operation()
def run_now(
    sql: Dialect,
    ids: Sequence[UUID],
    limits: Limits = NO_LIMITS,
    *,
    owns_transaction: bool = True,
    blocked_too: bool = True,
) -> Flow[ActionResult]:
    """Run scheduled and blocked jobs now. Returns those that were either.

    Inside the caller's transaction no slot is granted: blocked jobs get theirs after its commit. A caller that does not
    know when that is passes `blocked_too=False`.
    """
    ids = list(dict.fromkeys(ids))
    scheduled = yield from lock_executions(sql, "scheduledexecution", ids)
    keys: dict[str, int] = {}
    if scheduled:
        yield sql.delete("scheduledexecution", scheduled)
    moved = set(scheduled)
    blocked = yield from _find_blocked(sql, [id_ for id_ in ids if id_ not in moved] if blocked_too else [])
    if scheduled:
        keys = yield from _insert_first_executions(sql, scheduled, limits)
    if not scheduled and not blocked:
        return UNCHANGED
    if not owns_transaction:
        after_commit = Operation("run now after commit", partial(_run_blocked, sql, blocked, keys, limits))
        return ActionResult([*scheduled, *blocked], (), True, after_commit if blocked or keys else None)
    granted, promoted = yield from _run_blocked(sql, blocked, keys, limits)
    return ActionResult([*scheduled, *granted], promoted, True)


def lock_executions(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[list[UUID]]:
    """The jobs that have a row in this table, which is locked until the transaction ends."""
    if ids and sql.locks_gaps:
        # A locking read that finds no row locks the gap: other processes could not insert until the caller commits.
        rows = yield sql.select(table, "job_id", list(ids), is_ordered=True, returns="u")
        ids = [row[0] for row in rows]
    if not ids:
        return []
    rows = yield sql.lock(table, "job_id", list(ids), is_ordered=True, returns="u")
    return [row[0] for row in rows]


def delete_if_any(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[None]:
    """Delete the rows of jobs that few jobs have: a delete that finds no row may lock the gap, as above."""
    rows = yield sql.select(table, "job_id", list(ids), returns="u")
    if rows:
        yield sql.delete(table, [row[0] for row in rows])


def _insert_first_executions(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[dict[str, int]]:
    """Insert ready rows, or blocked ones for limited jobs, of jobs without one; returns the keys to promote."""
    columns = "id, concurrency_key, concurrency_limit, priority, task_path"
    rows = yield sql.select("job", columns, list(ids), returns="u....")
    unlimited = [row[0] for row in rows if row[1] is None]
    if unlimited:
        yield insert_ready(sql, unlimited)
    limited = [row for row in rows if row[1] is not None]
    if limited:
        yield insert_blocked(sql, [(job_id, key, priority) for job_id, key, _, priority, _ in limited])
    return {key: limit_in_force(limits, path, stored) for _, key, stored, _, path in limited}


def promote_or_defer(
    sql: Dialect, keys: Mapping[str, int], limits: Limits, owns_transaction: bool
) -> Flow[tuple[Sequence[UUID], Operation[Any] | None]]:
    """Promote the keys now, or return the operation that does so after the caller's commit."""
    if owns_transaction or not keys:
        return (yield from promote.flow(sql, keys, limits)), None
    return (), promote(sql, keys, limits)


def free_slots(sql: Dialect, ids: Sequence[UUID], limits: Limits) -> Flow[dict[str, int]]:
    """Delete the slots of these jobs; returns their keys, to be promoted."""
    slots = yield sql.select("semaphore", "job_id, concurrency_key", list(ids), returns="u.")
    if not slots:
        return {}
    holders = [row[0] for row in slots]
    yield sql.delete("semaphore", holders)
    rows = yield sql.select("job", "id, concurrency_limit, task_path", holders, returns="u..")
    limit_of = {job_id: limit_in_force(limits, path, stored) for job_id, stored, path in rows}
    return {key: limit_of.get(job_id, 1) for job_id, key in slots}


def _find_blocked(sql: Dialect, ids: Sequence[UUID]) -> Flow[dict[UUID, str]]:
    """Those of the jobs that are blocked, with their keys."""
    if not ids:
        return {}
    rows = yield sql.select("blockedexecution", "job_id, concurrency_key", list(ids), returns="u.")
    return {row[0]: row[1] for row in rows}


def _run_blocked(
    sql: Dialect, blocked: Mapping[UUID, str], keys: Mapping[str, int], limits: Limits
) -> Flow[tuple[list[UUID], list[UUID]]]:
    """Grant slots above the limit to blocked jobs, and promote other keys; returns the jobs of the first and second."""
    granted: list[UUID] = []
    if blocked:
        # All locks together and ascending, also those of the promotion, which then finds them held by us.
        yield from sql.lock_keys(sorted({lock_id(key) for key in (*blocked.values(), *keys)}))
        granted = yield from _grant_above_limit(sql, blocked)
    return granted, (yield from promote.flow(sql, keys, limits))


def _grant_above_limit(sql: Dialect, blocked: Mapping[UUID, str]) -> Flow[list[UUID]]:
    # A transaction that has locked such a row discards the job, and may wait for the lock of its key: skip the row.
    rows = yield sql.lock("blockedexecution", "job_id", list(blocked), skip_locked=True, is_ordered=True, returns="u")
    waiting = [row[0] for row in rows]
    if not waiting:
        return []
    rows = yield sql.statement(
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
