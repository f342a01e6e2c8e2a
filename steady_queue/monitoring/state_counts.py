"""How many tasks are in each state, in one query."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.utils import timezone

from steady_queue.db.transactions import run_one
from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.monitoring.job_states import LOST_CLASSES
from steady_queue.monitoring.sections import last_id_of
from steady_queue.monitoring.states import LATE_SECONDS, JobState
from steady_queue.store.operations.capped_counts import count_states

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class StateSummary(NamedTuple):
    """The database's time, the tasks of each state, the overdue scheduled ones, and failures since a time."""

    now: datetime
    states: Mapping[JobState, CappedCount]
    overdue: CappedCount
    #: Failed and exhausted tasks since then.
    failed_since: Mapping[JobState, CappedCount]


def read_states(failed_after: datetime | None = None, limit: int = COUNT_LIMIT) -> StateSummary:
    """Count the tasks of each state; without a time, no failure is counted in `failed_since`."""
    found = run_one(
        lambda sql: count_states(
            sql,
            limit=limit,
            lost_classes=LOST_CLASSES,
            late_seconds=LATE_SECONDS,
            late_id=last_id_of(timezone.now() - timedelta(seconds=LATE_SECONDS)),
            failed_after=failed_after,
        )
    )

    def of(number: int, of_counted: int | None = None) -> CappedCount:
        """The count of rows; of a part of rows that were counted up to the limit, there may be more."""
        return CappedCount(min(number, limit), (number if of_counted is None else of_counted) > limit)

    states = {
        JobState.FAILED: of(found.failed),
        JobState.EXHAUSTED: of(found.exhausted),
        JobState.LOST: of(found.lost, found.failed),
        JobState.RUNNING: of(found.running),
        JobState.READY: of(found.ready),
        JobState.LATE: of(found.late_scheduled + found.late_ready, found.late_scheduled + found.maybe_late_ready),
        JobState.SCHEDULED: of(found.scheduled - found.retrying, found.scheduled),
        JobState.RETRYING: of(found.retrying, found.scheduled),
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
