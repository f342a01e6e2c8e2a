"""Ticks of recurring tasks.

A tick is a row `(task_key, run_at)`, unique, written in the transaction that stores its job: however many schedulers
race or crash, there is one job for it. A tick is not enqueued once a later one of its key has been, so that only the
last record of a key must be kept for ever. Every try has job ids of its own: a tick that is sent again after a lost
answer meets its record and changes nothing.

The task of another backend is enqueued by that backend when the record is committed: a crash in between loses it.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.ids import uuid_of
from steady_queue.store.operations.cleanup import subtract_span
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.prune import BATCH_ROWS
from steady_queue.store.operations.recurring import LAST_TICK
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from steady_queue.store.job import NewJob
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.operations.recurring import StoredTime
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class Tick(NamedTuple):
    """A tick of an entry as it was at `updated_at`, and the job to enqueue for it, which has its id.

    Without a job it is only recorded: the task is another backend's.
    """

    task_key: str
    run_at: datetime
    updated_at: StoredTime
    id: UUID
    job: NewJob | None


class EnqueuedTicks(NamedTuple):
    """The ticks that nobody had recorded, and those whose jobs were discarded for want of a slot."""

    ids: tuple[UUID, ...] = ()
    discarded: frozenset[UUID] = frozenset()


def enqueue_ticks(sql: Dialect, ticks: Sequence[Tick], limits: Limits | None = None) -> Operation[EnqueuedTicks]:
    """Enqueue those of the ticks that nobody has enqueued, of entries that are as they were read."""
    # In one order, so that racing schedulers wait for each other and never in a circle.
    return Operation("tick", partial(_tick, sql, sorted(ticks, key=lambda t: (t.task_key, t.run_at)), limits))


def clear_ticks(sql: Dialect, now: datetime, keep: timedelta) -> Operation[int]:
    """Delete records older than `keep`, but for the last one of each entry that there is."""
    return Operation("clear ticks", partial(_clear_ticks, sql, now, keep))


def _tick(sql: Dialect, ticks: Sequence[Tick], limits: Limits | None) -> Flow[EnqueuedTicks]:
    keys = list(dict.fromkeys(tick.task_key for tick in ticks))
    rows = yield sql.say(
        f"SELECT t.task_key, t.updated_at, {LAST_TICK}, {sql.now} FROM steady_queue_recurringtask t"
        " WHERE t.enabled = ? AND t.task_key IN ?*",
        True,
        keys,
        returns=".mmt",
    )
    state = {row[0]: (row[1], row[2]) for row in rows}
    new = [tick for tick in ticks if _is_new(tick, state.get(tick.task_key))]
    if not new:
        return EnqueuedTicks()
    text = "INSERT INTO steady_queue_recurringexecution (job_id, task_key, run_at, created_at) VALUES (?, ?, ?, ?)"
    yield sql.say_each(sql.unless_there(text), [(tick.id, tick.task_key, tick.run_at, rows[0][3]) for tick in new])
    rows = yield sql.say(
        "SELECT job_id FROM steady_queue_recurringexecution WHERE job_id IN ?*",
        [tick.id for tick in new],
        returns="u",
    )
    won = {row[0] for row in rows}
    ids = tuple(tick.id for tick in new if tick.id in won)
    jobs = [tick.job for tick in new if tick.id in won and tick.job is not None]
    if not jobs:
        return EnqueuedTicks(ids)
    done = yield from enqueue(sql, jobs, limits=limits).flow()
    return EnqueuedTicks(ids, done.discarded)


def _is_new(tick: Tick, state: tuple[StoredTime, StoredTime | None] | None) -> bool:
    if state is None or state[0] != tick.updated_at:
        return False
    last = state[1]
    return last is None or (isinstance(last, datetime) and tick.run_at > last)


def _clear_ticks(sql: Dialect, now: datetime, keep: timedelta) -> Flow[int]:
    if not (yield from sql.try_maintenance()):
        return 0
    # The ids of jobs begin with their time in milliseconds since 1970.
    before = uuid_of(max(0, int(subtract_span(now, keep).timestamp() * 1000)) << 80)
    rows = yield sql.say(
        "SELECT e.job_id FROM steady_queue_recurringexecution e WHERE e.job_id < ? AND"
        " (EXISTS (SELECT 1 FROM steady_queue_recurringexecution n WHERE n.task_key = e.task_key"
        " AND n.run_at > e.run_at)"
        # Counted: of NOT EXISTS the servers make a list of all entries.
        " OR (SELECT count(*) FROM steady_queue_recurringtask t WHERE t.task_key = e.task_key) = 0)"
        " ORDER BY e.job_id LIMIT ?",
        before,
        BATCH_ROWS,
        returns="u",
    )
    if rows:
        yield sql.say("DELETE FROM steady_queue_recurringexecution WHERE job_id IN ?*", [row[0] for row in rows])
    return len(rows)
