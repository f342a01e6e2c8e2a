"""Sweeps of maintenance: end jobs that have expired where they wait, and delete unique keys that no job needs.

Each is one short transaction behind the try-lock of maintenance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import FailureKind
from steady_queue.store.operations.actions.job_actions import WAITING, free_slots
from steady_queue.store.operations.expiry import end_expired, find_passed
from steady_queue.store.operations.processes.prune import BATCH_ROWS
from steady_queue.store.operations.promote import NO_LIMITS, promote
from steady_queue.store.operations.uniqueness.unique_keys import find_needless
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class ExpiredSweep(NamedTuple):
    """The jobs that have expired since the last sweep, whichever operation ended them, and how many it promoted."""

    expired: list[UUID]
    promoted: int = 0
    #: Whether more rows have passed than one sweep handles.
    is_more_left: bool = False


@operation()
def sweep_expired(sql: Dialect, limits: Limits = NO_LIMITS, *, promoting: bool = True) -> Flow[ExpiredSweep]:
    """End the jobs that wait and have expired, the earliest first, and delete the expiry rows that have passed.

    A job that is claimed at this moment keeps no row: its claim checks the time itself.
    """
    if not (yield from sql.try_maintenance()):
        return ExpiredSweep([])
    passed = yield from find_passed(sql, BATCH_ROWS)
    if not passed:
        return ExpiredSweep([])
    ended: list[UUID] = []
    kept: set[UUID] = set()
    for table in WAITING:
        locked, held = yield from _lock_waiting(sql, table, [job.id for job in passed if job.is_expired])
        kept.update(held)
        if locked:
            yield sql.delete(table, locked)
            ended += locked
    keys: dict[str, int] = {}
    if ended:
        keys = yield from free_slots(sql, ended, limits)
        yield from end_expired(sql, ended)
    ids = [job.id for job in passed if job.id not in kept]
    if ids:
        yield sql.delete("expiry", ids)
    expired = yield from _find_expired(sql, ids)
    promoted = (yield from promote.flow(sql, keys, limits)) if promoting else []
    return ExpiredSweep(expired, len(promoted), len(passed) == BATCH_ROWS)


@operation()
def sweep_unique_keys(sql: Dialect, after: str = "") -> Flow[tuple[int, str | None]]:
    """Delete the keys after one, in order, that no job needs; returns how many, and the last key that was looked at.

    These are keys that were held for some time after the end of their jobs, and those that the end of a job skipped
    because another transaction had locked them.
    """
    if not (yield from sql.try_maintenance()):
        return 0, None
    needless, last = yield from find_needless(sql, after, BATCH_ROWS)
    if needless:
        yield sql.delete("uniquekey", needless)
    return len(needless), last


def _lock_waiting(sql: Dialect, table: str, ids: Sequence[UUID]) -> Flow[tuple[list[UUID], list[UUID]]]:
    """Those of the jobs that have a row in this table: locked here, and locked by another transaction."""
    if not ids:
        return [], []
    rows = yield sql.select(table, "job_id", list(ids), returns="u")
    found = [row[0] for row in rows]
    if not found:
        return [], []
    rows = yield sql.lock(table, "job_id", found, skip_locked=True, is_ordered=True, returns="u")
    locked = [row[0] for row in rows]
    return locked, [id_ for id_ in found if id_ not in set(locked)]


def _find_expired(sql: Dialect, ids: Sequence[UUID]) -> Flow[list[UUID]]:
    """Those of the jobs that ended because they expired, here or when they were claimed, dispatched or promoted."""
    if not ids:
        return []
    rows = yield sql.select("failedexecution", "job_id, kind", list(ids), returns="ui")
    return [row[0] for row in rows if row[1] == FailureKind.EXPIRED]
