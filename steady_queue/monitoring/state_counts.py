"""How many tasks are in each state, in one query."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.utils import timezone

from steady_queue.db.transactions import run_one
from steady_queue.monitoring.counts import COUNT_LIMIT, CappedCount
from steady_queue.monitoring.job_states import LOST_CLASSES
from steady_queue.monitoring.states import LATE_SECONDS, JobState
from steady_queue.store.ids import uuid_of
from steady_queue.store.operations.capped_counts import count_states

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


class StateSummary(NamedTuple):
    """The database's time, the tasks of each state, the overdue scheduled ones, and failures since a time."""

    now: datetime
    states: Mapping[JobState, CappedCount]
    overdue: CappedCount
    failed_since: CappedCount


def read_states(failed_after: datetime | None = None) -> StateSummary:
    """Count the tasks of each state; without a time, no failure is counted in `failed_since`."""
    late_since = timezone.now() - timedelta(seconds=LATE_SECONDS)
    # The ids of jobs begin with their time in milliseconds since 1970.
    enqueued_before = uuid_of(int(late_since.timestamp() * 1000) << 80)
    found = run_one(
        lambda sql: count_states(
            sql,
            limit=COUNT_LIMIT,
            lost_classes=LOST_CLASSES,
            late_seconds=LATE_SECONDS,
            enqueued_before=enqueued_before,
            failed_after=failed_after,
        )
    )
    of = CappedCount.of
    failed, scheduled = of(found.failed), of(found.scheduled)
    is_late_capped = found.late_scheduled > COUNT_LIMIT or found.maybe_late_ready > COUNT_LIMIT
    states = {
        JobState.FAILED: failed,
        JobState.EXHAUSTED: of(found.exhausted),
        JobState.LOST: CappedCount(min(found.lost, COUNT_LIMIT), found.failed > COUNT_LIMIT),
        JobState.RUNNING: of(found.running),
        JobState.READY: of(found.ready),
        JobState.LATE: CappedCount(min(found.late_scheduled + found.late_ready, COUNT_LIMIT), is_late_capped),
        JobState.SCHEDULED: scheduled,
        JobState.RETRYING: CappedCount(min(found.retrying, COUNT_LIMIT), scheduled.is_capped),
        JobState.BLOCKED: of(found.blocked),
        JobState.FINISHED: of(found.finished),
        JobState.CANCELLED: of(found.cancelled),
        JobState.EXPIRED: of(found.expired),
    }
    return StateSummary(found.now, states, of(found.late_scheduled), of(found.failed_since))
