"""How many tasks are in each state, in one query."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.db.transactions import run_one
from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.monitoring.jobs.current_state import LOST_CLASSES
from steady_queue.monitoring.jobs.sections import last_id_of
from steady_queue.monitoring.states import LATE_SECONDS, JobState
from steady_queue.store.operations.monitoring.capped_counts import count_states

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Tasks that are looked up where the table of a state does not say enough: which failed ones are lost, which scheduled
#: ones are retried, and which ready ones are late. With more, a page would take too long (measured).
LOOKED_UP = 500


class StateSummary(NamedTuple):
    """The database's time, the tasks of each state, the overdue scheduled ones, and failures since a time."""

    now: datetime
    states: Mapping[JobState, CappedCount]
    overdue: CappedCount
    #: Failed and exhausted tasks since then.
    failed_since: Mapping[JobState, CappedCount]


def read_state_counts(
    failed_after: datetime | None = None, limit: int = COUNT_LIMIT, looked_up: int = LOOKED_UP
) -> StateSummary:
    """Count the tasks of each state; without a time, no failure is counted in `failed_since`."""
    found = run_one(
        lambda sql: count_states(
            sql,
            limit=limit,
            looked_up=looked_up,
            lost_classes=LOST_CLASSES,
            late_seconds=LATE_SECONDS,
            late_id=last_id_of(datetime.now(UTC) - timedelta(seconds=LATE_SECONDS)),
            failed_after=failed_after,
        )
    )

    def of(number: int) -> CappedCount:
        return CappedCount.of(number, limit)

    def part_of(total: int, number: int) -> CappedCount:
        """The count of a part of rows: if not all were looked up, there may be more."""
        return CappedCount(min(number, limit), total > looked_up)

    late = found.late_scheduled + found.late_ready
    is_late_capped = found.late_scheduled > limit or found.maybe_late_ready > looked_up
    states = {
        JobState.FAILED: of(found.failed),
        JobState.EXHAUSTED: of(found.exhausted),
        JobState.LOST: part_of(found.failed, found.lost),
        JobState.RUNNING: of(found.running),
        JobState.READY: of(found.ready),
        JobState.LATE: CappedCount(min(late, limit), is_late_capped),
        JobState.SCHEDULED: part_of(found.scheduled, min(found.scheduled, looked_up) - found.retrying),
        JobState.RETRYING: part_of(found.scheduled, found.retrying),
        JobState.BLOCKED: of(found.blocked),
        JobState.FINISHED: of(found.finished),
        JobState.CANCELLED: of(found.cancelled),
        JobState.EXPIRED: of(found.expired),
    }
    failed_since = {
        JobState.FAILED: of(found.failed_since),
        JobState.EXHAUSTED: of(found.exhausted_since),
    }
    return StateSummary(found.now, states, of(found.late_scheduled), failed_since)
