"""Schedules: the instants (ticks) at which a task recurs. Pure: no database, no Django, no clock of its own.

The rule for days on which the clocks change:

- A schedule that names hours (`30 2 * * *`, `0 9-17 * * *`) has one tick for each of its times of the day. For a time
  that the day does not have, the tick is the first instant after the gap; for a time that the day has twice, the first.
- A schedule for every hour (`*/15 * * * *`, `@hourly`) has a tick whenever local time shows its minute, and so keeps
  its real interval.
- `every` has no time zone: its ticks are whole multiples of the interval since 1970-01-01 00:00 UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo

from steady_queue.errors import ConfigurationError
from steady_queue.recurring.cron import Crontab

if TYPE_CHECKING:
    from collections.abc import Iterator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
#: Its seconds are stored with at most eleven digits.
MAX_INTERVAL = timedelta(seconds=99_999_999_999)
#: The prefix of a stored schedule that is an interval.
EVERY_PREFIX = "@every "
#: Changes of a zone's offset are searched in steps of this size: no zone changes and changes back sooner.
SEARCH_STEP = timedelta(days=6)

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
    clock = find_zone(zone)
    if text.startswith(EVERY_PREFIX):
        return every(_interval(text))
    expression = ALIASES.get(text.strip().lower(), text)
    if expression.startswith("@"):
        raise ConfigurationError(f"the schedule {text!r} is unknown; the names are {', '.join(ALIASES)}")
    crontab = Crontab(expression, text)
    return Schedule(text, (_EveryHour if crontab.is_hourly else _FixedHours)(crontab, clock))


@lru_cache(maxsize=1024)
def find_zone(name: str) -> tzinfo:
    """Return the time zone with this name."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigurationError(f"there is no time zone {name!r}") from None


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


class _FixedHours:
    """Each local time once."""

    def __init__(self, crontab: Crontab, zone: tzinfo) -> None:
        self._crontab = crontab
        self._zone = zone

    def next(self, after: datetime) -> datetime | None:
        try:
            wall: datetime | None = self._latest_local(after)
            while wall is not None:
                wall = self._crontab.next(wall)
                if wall is not None and (instant := self._instant(wall)) > after:
                    return instant
        except OverflowError:
            pass
        return None

    def _latest_local(self, instant: datetime) -> datetime:
        """Return the latest local time that has been shown up to this instant."""
        local = instant.astimezone(self._zone)
        wall = local.replace(tzinfo=None, fold=0)
        if local.fold:
            # The clocks were set back: local times that are shown for the second time have had their tick.
            first = local.replace(fold=0).astimezone(UTC)
            return local_time_at(find_change(self._zone, first, instant) - SECOND, self._zone)
        return wall

    def _instant(self, wall: datetime) -> datetime:
        instant = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if local_time_at(instant, self._zone) == wall:
            return instant
        return find_change(self._zone, wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC), instant)


class _EveryHour:
    """Each time that local time matches, also when it is shown twice."""

    def __init__(self, crontab: Crontab, zone: tzinfo) -> None:
        self._crontab = crontab
        self._zone = zone

    def next(self, after: datetime) -> datetime | None:
        try:
            while True:
                offset = offset_at(after, self._zone)
                wall = self._crontab.next((after + offset).replace(tzinfo=None))
                if wall is None:
                    return None
                tick = wall.replace(tzinfo=UTC) - offset
                changed = self._change(after, tick, offset)
                if changed is None:
                    return tick
                # The local time at the first instant of the new offset counts as well.
                wall = self._crontab.next((changed + offset_at(changed, self._zone) - SECOND).replace(tzinfo=None))
                if wall is not None and wall.replace(tzinfo=UTC) - offset_at(changed, self._zone) == changed:
                    return changed
                after = changed
        except OverflowError:
            return None

    def _change(self, after: datetime, until: datetime, offset: timedelta) -> datetime | None:
        """Return when the offset first changed in (after, until]."""
        while after < until:
            later = min(until, after + SEARCH_STEP)
            if offset_at(later, self._zone) != offset:
                return find_change(self._zone, after, later)
            after = later
        return None


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def local_time_at(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def find_change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """Return the first second of the offset that a zone has at `after` and does not have at `before`."""
    old = offset_at(before, zone)
    low, high = int((before - EPOCH) // SECOND), -int((EPOCH - after) // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(EPOCH + middle * SECOND, zone) == old:
            low = middle
        else:
            high = middle
    return EPOCH + high * SECOND
