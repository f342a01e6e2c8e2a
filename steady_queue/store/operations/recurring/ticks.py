"""Ticks of recurring tasks.

A tick is a row `(task_key, run_at)`, unique, inserted in the transaction that stores its job: however many schedulers
race or crash, there is one job for it. A tick is not enqueued after a later one of its key, so that only the last
record of a key must be kept for ever. Every try has new job ids: a tick that is repeated after a lost answer finds its
record and changes nothing.

The task of another backend is enqueued by that backend after the record was committed: a crash in between loses it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.ids import uuid_of
from steady_queue.store.operations.actions.cleanup import subtract_span
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes.prune import BATCH_ROWS
from steady_queue.store.operations.promote import NO_LIMITS
from steady_queue.store.operations.recurring.entries import LAST_TICK
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.job import NewJob, Uniqueness
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.operations.recurring.entries import StoredTime
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Tick(NamedTuple):
    """A tick of an entry as it was at `updated_at`, and the job to enqueue for it, which has the tick's id.

    Without a job the tick is only recorded: its task belongs to another backend.
    """

    task_key: str
    run_at: datetime
    updated_at: StoredTime
    id: UUID
    job: NewJob | None
    #: How the job takes its unique key, if it has one.
    rule: Uniqueness | None = None


class EnqueuedTicks(NamedTuple):
    """The ticks that were not recorded before, and those whose jobs were discarded because there was no free slot."""

    ids: tuple[UUID, ...] = ()
    discarded: frozenset[UUID] = frozenset()
    #: Those whose jobs were not stored, because other jobs have their unique keys.
    unfinished: frozenset[UUID] = frozenset()
    replaced: Sequence[UUID] = ()


def unique_key_of(task_key: str) -> str:
    """The unique key of the jobs of an entry with `skip_if_unfinished`."""
    return f"recurring/{task_key}"


@operation()
def enqueue_ticks(sql: Dialect, ticks: Sequence[Tick], limits: Limits = NO_LIMITS) -> Flow[EnqueuedTicks]:
    """Enqueue the ticks that are not recorded, of entries that have not changed since they were read."""
    # In one order, so that racing schedulers wait for each other but never deadlock.
    ticks = sorted(ticks, key=lambda tick: (tick.task_key, tick.run_at))
    rows = yield sql.statement(
        f"SELECT t.task_key, t.updated_at, {LAST_TICK}, {sql.now} FROM steady_queue_recurringtask t"
        " WHERE t.enabled = ? AND t.task_key IN ?*",
        True,
        list(dict.fromkeys(tick.task_key for tick in ticks)),
        returns=".mmt",
    )
    entries = {row[0]: (row[1], row[2]) for row in rows}
    new = [tick for tick in ticks if _is_new(tick, entries.get(tick.task_key))]
    if not new:
        return EnqueuedTicks()
    text = "steady_queue_recurringexecution (job_id, task_key, run_at, created_at) VALUES (?, ?, ?, ?)"
    yield sql.statement_each(sql.insert_new(text), [(tick.id, tick.task_key, tick.run_at, rows[0][3]) for tick in new])
    rows = yield sql.select("recurringexecution", "job_id", [tick.id for tick in new], returns="u")
    inserted = {row[0] for row in rows}
    ids = tuple(tick.id for tick in new if tick.id in inserted)
    jobs = [tick.job for tick in new if tick.id in inserted and tick.job is not None]
    if not jobs:
        return EnqueuedTicks(ids)
    rules = {tick.id: tick.rule for tick in new if tick.rule is not None}
    enqueued = yield from enqueue(sql, jobs, limits=limits, rules=rules, raises=False).flow()
    unfinished = enqueued.skipped | enqueued.existing.keys()
    return EnqueuedTicks(ids, enqueued.discarded, unfinished, enqueued.replaced)


@operation()
def clear_ticks(sql: Dialect, now: datetime, keep: timedelta) -> Flow[int]:
    """Delete records older than `keep`, except the last one of each existing entry."""
    if not (yield from sql.try_maintenance()):
        return 0
    # The ids of jobs begin with their time in milliseconds since 1970.
    before = uuid_of(max(0, int(subtract_span(now, keep).timestamp() * 1000)) << 80)
    rows = yield sql.statement(
        "SELECT e.job_id FROM steady_queue_recurringexecution e WHERE e.job_id < ? AND"
        " (EXISTS (SELECT 1 FROM steady_queue_recurringexecution n WHERE n.task_key = e.task_key"
        " AND n.run_at > e.run_at)"
        # Counted: for NOT EXISTS the servers materialize all entries.
        " OR (SELECT count(*) FROM steady_queue_recurringtask t WHERE t.task_key = e.task_key) = 0)"
        " ORDER BY e.job_id LIMIT ?",
        before,
        BATCH_ROWS,
        returns="u",
    )
    if rows:
        yield sql.delete("recurringexecution", [row[0] for row in rows])
    return len(rows)


def _is_new(tick: Tick, entry: tuple[StoredTime, StoredTime | None] | None) -> bool:
    if entry is None or entry[0] != tick.updated_at:
        return False
    last = entry[1]
    return last is None or (isinstance(last, datetime) and tick.run_at > last)
