"""Time zones: the ticks of a cron expression in a time zone. Pure: no database, no Django, no clock of its own.

The rule for days on which the clocks change:

- An expression that names hours (`30 2 * * *`, `0 9-17 * * *`) has one tick for each of its times of the day. For a
  time that the day does not have, the tick is the first instant after the gap; for a time that the day has twice, the
  first.
- An expression for every hour (`*/15 * * * *`, `@hourly`) has a tick whenever local time shows its minute, and so keeps
  its real interval.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

from steady_queue.errors import ConfigurationError
from steady_queue.events.wording import suggest

if TYPE_CHECKING:
    from steady_queue.recurring.cron import Crontab

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
#: Changes of a zone's offset are searched in steps of this size: no zone changes and changes back sooner.
SEARCH_STEP = timedelta(days=6)


@lru_cache(maxsize=1024)
def find_zone(name: str) -> tzinfo:
    """Return the time zone with this name."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError, AttributeError):
        raise ConfigurationError(f"there is no time zone {name!r}{_suggest_zone(name)}") from None


def _suggest_zone(name: str) -> str:
    suggestion = suggest(str(name), available_timezones())
    return f"; {suggestion}" if suggestion else ", which is a name such as 'Europe/Berlin'"


class FixedHours:
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


class EveryHour:
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
