"""The load of the coming day: how many runs of which recurring tasks each hour has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice

from django.utils import timezone

from steady_queue.db.aliases import queue_alias
from steady_queue.models import RecurringTask
from steady_queue.recurring import schedule as schedules
from steady_queue.recurring.definitions import zone_of

HOURS = 24
#: A task that runs once a minute has 1,440 runs a day. No more are computed for one schedule, and no more for all.
MAX_RUNS_OF_SCHEDULE = 1_500
MAX_RUNS = 30_000
#: How many recurring tasks are read.
MAX_TASKS = 2_000

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CalendarHour:
    """An hour in the current time zone. Of the first hour, the runs that are left."""

    starts_at: datetime
    runs: int
    #: The keys of the tasks and their runs, the most frequent ones first.
    tasks: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Calendar:
    """The hours of the coming day. `cut` are the keys of the tasks that have more runs than are counted here."""

    hours: tuple[CalendarHour, ...]
    cut: tuple[str, ...]
    #: Whether there are more recurring tasks than were read.
    has_more_tasks: bool

    @property
    def runs(self) -> int:
        return sum(hour.runs for hour in self.hours)


def read_calendar(now: datetime | None = None) -> Calendar:
    """Return the runs of all enabled recurring tasks in the coming 24 hours, in one query."""
    now = datetime.now(UTC) if now is None else now
    stored = RecurringTask.objects.using(queue_alias()).filter(enabled=True).order_by("key")
    found = list(stored.values_list("key", "schedule", "time_zone")[: MAX_TASKS + 1])
    # Local hours may begin at half past an hour of UTC.
    first = timezone.localtime(now).replace(minute=0, second=0, microsecond=0).astimezone(UTC)
    counts = _ScheduleCounts(first, now)
    by_hour: list[Counter[str]] = [Counter() for _ in range(HOURS)]
    cut: list[str] = []
    for key, text, zone in found[:MAX_TASKS]:
        hours, is_cut = counts.count(text, zone_of(zone))
        if is_cut:
            cut.append(key)
        for at, runs in hours.items():
            by_hour[at][key] = runs
    return Calendar(
        tuple(
            CalendarHour(timezone.localtime(first + at * _HOUR), tasks.total(), tuple(tasks.most_common()))
            for at, tasks in enumerate(by_hour)
        ),
        tuple(cut),
        len(found) > MAX_TASKS,
    )


class _ScheduleCounts:
    """The runs of each hour, by schedule: tasks with the same schedule are computed once."""

    def __init__(self, first: datetime, now: datetime) -> None:
        self._first = first
        self._now = now
        self._left = MAX_RUNS
        self._known: dict[tuple[str, str], tuple[Counter[int], bool]] = {}

    def count(self, text: str, zone: str) -> tuple[Counter[int], bool]:
        """Return the number of runs by the number of the hour, and whether there are more."""
        known = self._known.get((text, zone))
        if known is None:
            known = self._known[text, zone] = self._compute(text, zone)
        return known

    def _compute(self, text: str, zone: str) -> tuple[Counter[int], bool]:
        end = self._first + HOURS * _HOUR - timedelta(microseconds=1)
        most = min(MAX_RUNS_OF_SCHEDULE, self._left)
        try:
            ticks = list(islice(schedules.parse(text, zone).due(self._now, end), most + 1))
        except Exception:  # a stored schedule or zone may be any text
            return Counter(), False
        self._left -= min(most, len(ticks))
        return Counter((tick - self._first) // _HOUR for tick in ticks[:most]), len(ticks) > most
