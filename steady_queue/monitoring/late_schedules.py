"""Late schedules: recurring tasks whose last tick was not enqueued, because no scheduler runs or it cannot."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from django.conf import settings
from django.db.models import OuterRef, Subquery

from steady_queue.db.aliases import queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.models import RecurringExecution, RecurringTask
from steady_queue.recurring.schedule import parse

if TYPE_CHECKING:
    from datetime import datetime

#: How long a tick may be due before it is late.
LATE_TICK_SECONDS = 120.0
#: Recurring tasks that are looked at.
MAX_SCHEDULES = 500


class LateSchedule(NamedTuple):
    """A recurring task and the tick that was not enqueued."""

    key: str
    due_at: datetime
    late_seconds: float


def find_late_schedules(now: datetime) -> list[LateSchedule]:
    """The enabled recurring tasks with a tick that is due and not enqueued, the latest first."""
    ticks = RecurringExecution.objects.filter(task_key=OuterRef("key")).order_by("-run_at").values("run_at")[:1]
    entries = RecurringTask.objects.using(queue_alias()).filter(enabled=True).annotate(last_tick=Subquery(ticks))
    columns = ("key", "schedule", "time_zone", "updated_at", "counts_from", "last_tick")
    found: list[LateSchedule] = []
    for key, text, zone, updated_at, counts_from, last_tick in entries.values_list(*columns)[:MAX_SCHEDULES]:
        # A changed entry has no ticks before its change.
        after = max(at for at in (counts_from or updated_at, last_tick) if at is not None)
        due = _next_tick(text, zone, after)
        if due is not None and now - due > timedelta(seconds=LATE_TICK_SECONDS):
            found.append(LateSchedule(key, due, (now - due).total_seconds()))
    return sorted(found, key=lambda late: late.due_at)


def _next_tick(text: str, zone: str | None, after: datetime) -> datetime | None:
    try:
        return parse(text, zone or settings.TIME_ZONE).next(after)
    except ConfigurationError:  # the scheduler disables the entry and says why
        return None
