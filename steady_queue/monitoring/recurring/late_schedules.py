"""Late schedules: recurring tasks with a tick that was not enqueued, because no scheduler runs or it cannot."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import OuterRef, Subquery

from steady_queue.db.aliases import queue_alias
from steady_queue.models import RecurringExecution, RecurringTask
from steady_queue.monitoring.states import LATE_SECONDS
from steady_queue.recurring.definitions import zone_of
from steady_queue.recurring.schedule import parse

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from steady_queue.recurring.schedule import Schedule

#: For how long a missed tick that is never repeated is reported.
REPORT_MISSED = timedelta(days=1)
#: Recurring tasks that are looked at.
MAX_SCHEDULES = 1_000
_LATE = timedelta(seconds=LATE_SECONDS)


class MissedTicks(NamedTuple):
    """The first and the last tick that is due for more than a minute and was not enqueued."""

    first: datetime
    last: datetime


class LateSchedule(NamedTuple):
    """A recurring task and its first tick that was not enqueued."""

    key: str
    due_at: datetime
    late_seconds: float


def find_missed(schedule: Schedule, after: datetime, now: datetime) -> MissedTicks | None:
    """Return the missed ticks after a time: see `counting_from`."""
    until = now - _LATE
    first = schedule.next(after)
    if first is None or first > until:
        return None
    return MissedTicks(first, schedule.last(after, until) or first)


def is_late(missed: MissedTicks | None, catch_up: str, now: datetime) -> bool:
    """Whether a tick is missing; with `catch_up="none"`, which never repeats it, only for a day."""
    return missed is not None and (catch_up != "none" or now - missed.last < REPORT_MISSED)


def find_late_schedules(now: datetime) -> list[LateSchedule]:
    """The enabled recurring tasks that are late, the latest first."""
    ticks = RecurringExecution.objects.filter(task_key=OuterRef("key")).order_by("-run_at").values("run_at")[:1]
    entries = RecurringTask.objects.using(queue_alias()).filter(enabled=True).annotate(last_tick=Subquery(ticks))
    columns = ("key", "schedule", "time_zone", "catch_up", "updated_at", "counts_from", "last_tick")
    found: list[LateSchedule] = []
    for key, text, zone, catch_up, *times in entries.order_by("key").values_list(*columns)[:MAX_SCHEDULES]:
        missed = _find_stored(text, zone, times, now)
        if missed is not None and is_late(missed, catch_up, now):
            found.append(LateSchedule(key, missed.first, (now - missed.first).total_seconds()))
    return sorted(found, key=lambda late: late.due_at)


def counting_from(updated_at: datetime, counts_from: datetime | None, last_tick: datetime | None) -> datetime:
    """Return after which time the ticks of an entry are still to be enqueued."""
    # A changed entry has no ticks before its change.
    changed_at = counts_from or updated_at
    return changed_at if last_tick is None else max(changed_at, last_tick)


def _find_stored(text: str, zone: str | None, times: Sequence[Any], now: datetime) -> MissedTicks | None:
    try:
        return find_missed(parse(text, zone_of(zone)), counting_from(*times), now)
    except Exception:  # a stored schedule, zone or time may be any text; the page of the task says what is wrong
        return None
