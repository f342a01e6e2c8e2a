"""Schedules: the instants (ticks) at which a task recurs. Pure: no database, no Django, no clock of its own.

A cron expression has a time zone: see time_zones.py. `every` has none: its ticks are whole multiples of the interval
since 1970-01-01 00:00 UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from steady_queue.errors import ConfigurationError
from steady_queue.recurring.cron import Crontab
from steady_queue.recurring.time_zones import EPOCH, SECOND, EveryHour, FixedHours, find_zone

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Its seconds are stored with at most eleven digits.
MAX_INTERVAL = timedelta(seconds=99_999_999_999)
#: The prefix of a stored schedule that is an interval.
EVERY_PREFIX = "@every "

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Ticks(Protocol):
    """Returns the first tick after an instant; None when there is none."""

    def next(self, after: datetime) -> datetime | None: ...


class Schedule:
    """A schedule: its text, and its ticks."""

    def __init__(self, text: str, ticks: Ticks) -> None:
        self.text = text
        self._ticks = ticks
        #: The last argument of `next` and its result: entries with equal schedules share one object, and ask the same.
        self._cached: tuple[datetime, datetime | None] | None = None

    def next(self, after: datetime) -> datetime | None:
        """Return the first tick after this instant."""
        cached = self._cached
        if cached is None or cached[0] != after:
            cached = self._cached = (after, self._ticks.next(after.astimezone(UTC)))
        return cached[1]

    def due(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """Return the ticks in (after, until], in order."""
        tick = self.next(after)
        while tick is not None and tick <= until:
            yield tick
            tick = self.next(tick)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last tick in (after, until], without computing the ticks before it."""
        found = self.next(after)
        if found is None or found > until:
            return None
        while until - found >= SECOND:
            middle = found + (until - found) / 2
            later = self.next(middle)
            if later is not None and later <= until:
                found = later
            else:
                until = middle
        # Ticks may have fractions of a second, but are at least a second apart.
        later = self.next(found)
        return later if later is not None and later <= until else found


def every(interval: timedelta) -> Schedule:
    """Return the schedule of an interval."""
    if not isinstance(interval, timedelta):
        raise ConfigurationError(f"every must be a timedelta, not {type(interval).__name__}")
    if interval < SECOND:
        raise ConfigurationError(f"every must be at least one second, not {interval}")
    if interval > MAX_INTERVAL:
        raise ConfigurationError(f"every must be at most {MAX_INTERVAL.days:,} days, not {interval}")
    seconds = f"{interval.days * 86400 + interval.seconds}.{interval.microseconds:06}".rstrip("0").rstrip(".")
    return Schedule(f"{EVERY_PREFIX}{seconds}", _Interval(interval))


def parse(text: str, zone: str = "UTC") -> Schedule:
    """Return the schedule of a cron expression, an alias such as `@daily` or a stored interval, in a time zone."""
    if not isinstance(text, str):
        raise ConfigurationError(f"the schedule must be a string, not {type(text).__name__}")
    if not isinstance(zone, str):
        raise ConfigurationError(f"there is no time zone {zone!r}")
    return _build_schedule(text, zone)


@lru_cache(maxsize=4096)
def _build_schedule(text: str, zone: str) -> Schedule:
    time_zone = find_zone(zone)
    if text.startswith(EVERY_PREFIX):
        return every(_interval(text))
    expression = ALIASES.get(text.strip().lower(), text)
    if expression.startswith("@"):
        raise ConfigurationError(f"the schedule {text!r} is unknown; the names are {', '.join(ALIASES)}")
    crontab = Crontab(expression, text)
    return Schedule(text, (EveryHour if crontab.is_hourly else FixedHours)(crontab, time_zone))


def _interval(text: str) -> timedelta:
    number = text.removeprefix(EVERY_PREFIX).strip()
    if not re.fullmatch(r"\d{1,11}(\.\d{1,6})?", number):
        raise ConfigurationError(
            f"the schedule {text!r} is invalid: an interval is written in seconds, of at most eleven digits"
        )
    whole, _, fraction = number.partition(".")
    return timedelta(seconds=int(whole), microseconds=int(fraction.ljust(6, "0")))


class _Interval:
    """The multiples of an interval."""

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval

    def next(self, after: datetime) -> datetime | None:
        try:
            return EPOCH + ((after - EPOCH) // self._interval + 1) * self._interval
        except OverflowError:
            return None
