"""Cron expressions in local time without a time zone; see time_zones.py for time zones and changes of the clocks.

croniter parses the expression and finds its days; the times of a day are looked up here. To find each time, croniter
takes several hundred microseconds, and thousands of entries may be due at once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from threading import Lock

from croniter import CroniterBadDateError, CroniterError, croniter

from steady_queue.errors import ConfigurationError

#: How far ahead the next day is searched: 29 February is missing for eight years around 2100.
MAX_GAP_YEARS = 9
#: How many found days are cached for one expression.
CACHED_DAYS = 64

_FIELDS = ("minute", "hour", "day", "month", "weekday", "second")
_NOT_FIXED = re.compile(r"(?<![A-Za-z])[hr](?![A-Za-z])", re.IGNORECASE)
_EPOCH = date(1970, 1, 1)
_DAY = timedelta(days=1)


class Crontab:
    """A cron expression of five fields, or six with seconds; `text` is what the user wrote, for error messages."""

    def __init__(self, expression: str, text: str) -> None:
        fields = expression.split()
        if len(fields) not in (5, 6):
            raise ConfigurationError(
                f"the schedule {text!r} has {len(fields)} fields; it takes 5, or 6 with seconds; for an interval, pass "
                "every=timedelta(...); for a crontab expression, write for example '*/5 * * * *'"
            )
        for name, field in zip(_FIELDS, fields, strict=False):
            if _NOT_FIXED.search(field):
                raise ConfigurationError(f"the schedule {text!r} has a random {name}: {field!r}")
        try:
            parts = croniter(" ".join(fields), 0.0).expanded
        except (CroniterError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ConfigurationError(f"the schedule {text!r} is invalid: {error}") from None
        self._minutes, self._hours = _numbers(parts[0], 60), _numbers(parts[1], 24)
        self._seconds = _numbers(parts[5], 60) if len(parts) > 5 else [0]
        self._days = _days(" ".join(fields[2:5]))
        self._first = time(self._hours[0], self._minutes[0], self._seconds[0])
        if self._days.first(date(2020, 1, 1)) is None:
            raise ConfigurationError(f"the schedule {text!r} never occurs: the calendar has no such day")

    @property
    def is_hourly(self) -> bool:
        """Whether the expression matches every hour."""
        return len(self._hours) == 24

    def next(self, after: datetime) -> datetime | None:
        """Return the first matching local time after this one; None when the calendar ends before."""
        try:
            day = self._days.first(after.date())
            if day == after.date():
                if (later := self._later(after.time())) is not None:
                    return datetime.combine(day, later)
                day = self._days.first(day + _DAY)
        except OverflowError:
            return None
        return None if day is None else datetime.combine(day, self._first)

    def _later(self, after: time) -> time | None:
        """Return the first matching time of a day after this one."""
        if after.hour in self._hours:
            if after.minute in self._minutes and (second := _above(self._seconds, after.second)) is not None:
                return time(after.hour, after.minute, second)
            if (minute := _above(self._minutes, after.minute)) is not None:
                return time(after.hour, minute, self._seconds[0])
        hour = _above(self._hours, after.hour)
        return None if hour is None else time(hour, self._minutes[0], self._seconds[0])


class _Days:
    """The days of an expression. Entries with the same days share one object, and so do threads."""

    def __init__(self, fields: str) -> None:
        self._cron = croniter(f"0 0 {fields}", 0.0, max_years_between_matches=MAX_GAP_YEARS)
        #: croniter changes its own state while it searches.
        self._finding = Lock()
        self._known: dict[date, date | None] = {}

    def first(self, day: date) -> date | None:
        """Return the first matching day from this day on."""
        known = self._known
        if day in known:
            return known[day]
        if len(known) >= CACHED_DAYS:
            # Replaced, not cleared: another thread may be reading the old one.
            known = self._known = {}
        with self._finding:
            found = known[day] = self._find(day)
        return found

    def _find(self, day: date) -> date | None:
        try:
            found: float = self._cron.get_next(float, start_time=(day - _EPOCH).total_seconds() - 1)
            return _EPOCH + timedelta(seconds=round(found))
        except (CroniterBadDateError, OverflowError, ValueError):
            return None


@lru_cache(maxsize=1024)
def _days(fields: str) -> _Days:
    return _Days(fields)


def _numbers(field: list[int | str], count: int) -> list[int]:
    return list(range(count)) if "*" in field else sorted(int(number) for number in field)


def _above(numbers: list[int], number: int) -> int | None:
    at = bisect_right(numbers, number)
    return numbers[at] if at < len(numbers) else None
