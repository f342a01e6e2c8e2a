"""Schedules: the instants at which something recurs. Pure: no database, no Django, no clock of its own.

The written rule for days on which the clocks change:

- An entry that names hours (`30 2 * * *`, `0 9-17 * * *`) fires once for each of its times of the day. A time that the
  day does not have fires at the first moment after the gap, a time that it has twice fires the first time.
- An entry for every hour (`*/15 * * * *`, `@hourly`) fires whenever the clock on the wall shows its minute, and so goes
  on at its real interval.
- `every` knows no time zone: its ticks are whole multiples of it since 1970-01-01 00:00 UTC.
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
#: The longest interval: its seconds are stored with at most eleven digits.
LONGEST = timedelta(seconds=99_999_999_999)
#: How an interval is written where schedules are stored as text.
EVERY = "@every "
#: Offsets of a zone are compared over so long at once: none changes and changes back sooner.
STRIDE = timedelta(days=6)

NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class Ticks(Protocol):
    """Finds the first tick after an instant; None when there is none."""

    def next(self, after: datetime) -> datetime | None: ...


class Schedule:
    """A schedule as it is written, and its ticks."""

    def __init__(self, text: str, ticks: Ticks) -> None:
        self.text = text
        self._ticks = ticks
        #: The last question and its answer: entries with equal schedules share one, and ask the same.
        self._answered: tuple[datetime, datetime | None] | None = None

    def next(self, after: datetime) -> datetime | None:
        """The first tick after this instant."""
        answered = self._answered
        if answered is None or answered[0] != after:
            answered = self._answered = (after, self._ticks.next(after.astimezone(UTC)))
        return answered[1]

    def due(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The ticks in (after, until], in order."""
        tick = self.next(after)
        while tick is not None and tick <= until:
            yield tick
            tick = self.next(tick)

    def last(self, after: datetime, until: datetime) -> datetime | None:
        """The last tick in (after, until], found without looking at those before."""
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
        # Ticks may lie on fractions of a second, but not closer than a second to each other.
        later = self.next(found)
        return later if later is not None and later <= until else found


def every(interval: timedelta) -> Schedule:
    """The schedule of an interval."""
    if not isinstance(interval, timedelta):
        raise ConfigurationError(f"every must be a timedelta, not {interval!r}")
    if interval < SECOND:
        raise ConfigurationError(f"every must be at least one second, not {interval}")
    if interval > LONGEST:
        raise ConfigurationError(f"every must be at most {LONGEST.days:,} days, not {interval}")
    seconds = f"{interval.days * 86400 + interval.seconds}.{interval.microseconds:06}".rstrip("0").rstrip(".")
    return Schedule(f"{EVERY}{seconds}", _Interval(interval))


def parse(text: str, zone: str = "UTC") -> Schedule:
    """The schedule that a text describes, by the clocks of a time zone."""
    if not isinstance(text, str):
        raise ConfigurationError(f"the schedule must be a text, not {text!r}")
    if not isinstance(zone, str):
        raise ConfigurationError(f"there is no time zone {zone!r}")
    return _parsed(text, zone)


@lru_cache(maxsize=4096)
def _parsed(text: str, zone: str) -> Schedule:
    clock = named_zone(zone)
    if text.startswith(EVERY):
        return every(_interval(text))
    expression = NAMES.get(text.strip().lower(), text)
    if expression.startswith("@"):
        raise ConfigurationError(f"the schedule {text!r} is not a name: there are {', '.join(NAMES)}")
    wall = Crontab(expression, text)
    return Schedule(text, (_EveryHour if wall.is_hourly else _NamedHours)(wall, clock))


@lru_cache(maxsize=1024)
def named_zone(name: str) -> tzinfo:
    """The time zone of this name."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigurationError(f"there is no time zone {name!r}") from None


def _interval(text: str) -> timedelta:
    number = text.removeprefix(EVERY).strip()
    if not re.fullmatch(r"\d{1,11}(\.\d{1,6})?", number):
        raise ConfigurationError(
            f"the schedule {text!r} is invalid: an interval is written in seconds, of at most eleven digits"
        )
    whole, _, fraction = number.partition(".")
    return timedelta(seconds=int(whole), microseconds=int(fraction.ljust(6, "0")))


class _Interval:
    """Multiples of an interval."""

    def __init__(self, interval: timedelta) -> None:
        self._interval = interval

    def next(self, after: datetime) -> datetime | None:
        try:
            return EPOCH + ((after - EPOCH) // self._interval + 1) * self._interval
        except OverflowError:
            return None


class _NamedHours:
    """Each time on the wall once."""

    def __init__(self, wall: Crontab, zone: tzinfo) -> None:
        self._wall = wall
        self._zone = zone

    def next(self, after: datetime) -> datetime | None:
        try:
            wall: datetime | None = self._shown(after)
            while wall is not None:
                wall = self._wall.next(wall)
                if wall is not None and (instant := self._instant(wall)) > after:
                    return instant
        except OverflowError:
            pass
        return None

    def _shown(self, instant: datetime) -> datetime:
        """The latest time that the wall has shown by then."""
        local = instant.astimezone(self._zone)
        wall = local.replace(tzinfo=None, fold=0)
        if local.fold:
            # The clock was put back: what it shows for the second time is over.
            first = local.replace(fold=0).astimezone(UTC)
            return wall_at(change(self._zone, first, instant) - SECOND, self._zone)
        return wall

    def _instant(self, wall: datetime) -> datetime:
        instant = wall.replace(tzinfo=self._zone).astimezone(UTC)
        if wall_at(instant, self._zone) == wall:
            return instant
        return change(self._zone, wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC), instant)


class _EveryHour:
    """Every time that the wall shows it."""

    def __init__(self, wall: Crontab, zone: tzinfo) -> None:
        self._wall = wall
        self._zone = zone

    def next(self, after: datetime) -> datetime | None:
        try:
            while True:
                offset = offset_at(after, self._zone)
                wall = self._wall.next((after + offset).replace(tzinfo=None))
                if wall is None:
                    return None
                tick = wall.replace(tzinfo=UTC) - offset
                changed = self._change(after, tick, offset)
                if changed is None:
                    return tick
                # Whatever the new clock shows at its first moment counts as well.
                wall = self._wall.next((changed + offset_at(changed, self._zone) - SECOND).replace(tzinfo=None))
                if wall is not None and wall.replace(tzinfo=UTC) - offset_at(changed, self._zone) == changed:
                    return changed
                after = changed
        except OverflowError:
            return None

    def _change(self, after: datetime, until: datetime, offset: timedelta) -> datetime | None:
        """When the clock was first changed in (after, until]."""
        while after < until:
            later = min(until, after + STRIDE)
            if offset_at(later, self._zone) != offset:
                return change(self._zone, after, later)
            after = later
        return None


def offset_at(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def wall_at(instant: datetime, zone: tzinfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, fold=0)


def change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The first second of the offset that a zone has at `after` and not yet at `before`."""
    old = offset_at(before, zone)
    low, high = int((before - EPOCH) // SECOND), -int((EPOCH - after) // SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if offset_at(EPOCH + middle * SECOND, zone) == old:
            low = middle
        else:
            high = middle
    return EPOCH + high * SECOND
