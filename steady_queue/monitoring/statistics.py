"""What ran in the last hour and day, as the processes have counted it: no job is read.

A process writes the sums of its minutes with its heartbeat: those since the last heartbeats are not complete.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import F, Field, Max, Q, Sum

import steady_queue
from steady_queue.db.aliases import queue_alias
from steady_queue.db.transactions import run_one
from steady_queue.models import TaskStatistics
from steady_queue.store.operations.recurring.entries import read_database_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from django.db.models import QuerySet

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
#: Points of an hour and of a day.
MINUTES_PER_HOUR, HOURS_PER_DAY = 60, 24
#: The complete minutes over which a recent rate is the mean.
RATE_MINUTES = 5
#: Queues and tasks whose rates are read.
MAX_NAMES = 200

_COUNTS = ("started", "finished", "failed", "retried", "waits", "run_milliseconds", "wait_milliseconds")
_LONGEST = ("longest_run_milliseconds", "longest_wait_milliseconds")
_NUMBER: Field[Any, Any] = Field()


class Point(NamedTuple):
    """What ran in a minute or an hour, which begins at `at`. The times are None if there is nothing to measure."""

    at: datetime
    started: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    mean_run_seconds: float | None = None
    longest_run_seconds: float | None = None
    mean_wait_seconds: float | None = None
    longest_wait_seconds: float | None = None
    #: How many tasks were claimed for their first attempt: those whose waits are known.
    waits: int = 0

    @property
    def ended(self) -> int:
        """How many attempts ended."""
        return self.finished + self.failed + self.retried


class Rate(NamedTuple):
    """Attempts that ended and those of them that failed or are retried, per minute, over the last minutes and hour."""

    per_minute: float = 0.0
    failures_per_minute: float = 0.0
    hourly_per_minute: float = 0.0
    hourly_failures_per_minute: float = 0.0


def read_hour(now: datetime | None = None) -> list[Point]:
    """The last 60 minutes, the current one included, in order."""
    starts = hour_starts(now)
    return fill(starts, {at: _point(at, sums) for at, *sums in _sums(_minutes(starts[0]), "starts_at")})


def add_hours(hours: Iterable[Sequence[Point]], now: datetime) -> list[Point]:
    """The last 60 minutes of several queues together."""
    points: dict[datetime, list[Point]] = {}
    for hour in hours:
        for point in hour:
            if point.started or point.ended or point.waits:
                points.setdefault(point.at, []).append(point)
    return fill(hour_starts(now), {at: _add(at, parts) for at, parts in points.items()})


def read_day(now: datetime | None = None, queue: str | None = None) -> list[Point]:
    """The last 24 hours, the current one included, in order; of all queues or of one."""
    current = _hour_of(now or read_now())
    starts = [current - HOUR * ago for ago in reversed(range(HOURS_PER_DAY))]
    # Minutes are deleted when they are added to their hour: what happened is in exactly one row.
    rows = _rows().filter(seconds__in=(MINUTE.seconds, HOUR.seconds), starts_at__gte=starts[0])
    if queue is not None:
        rows = rows.filter(queue_name=queue)
    # Not grouped by the database: MariaDB may not know any time zone.
    parts: dict[datetime, list[Point]] = {}
    for at, *sums in _sums(rows, "starts_at"):
        parts.setdefault(_hour_of(at), []).append(_point(at, sums))
    return fill(starts, {hour: _add(hour, points) for hour, points in parts.items()})


def hours_by_queue(now: datetime | None = None, queues: Sequence[str] | None = None) -> dict[str, list[Point]]:
    """The last 60 minutes of each queue that had tasks, or of these; of more than 200, of the first by name."""
    starts = hour_starts(now)
    rows = _minutes(starts[0])
    if queues is not None:
        rows = rows.filter(queue_name__in=list(queues))
    found = list(_sums(rows, "queue_name", "starts_at")[: MAX_NAMES * MINUTES_PER_HOUR + 1])
    if len(found) > MAX_NAMES * MINUTES_PER_HOUR:
        names = rows.values_list("queue_name", flat=True).distinct().order_by("queue_name")[:MAX_NAMES]
        found = list(_sums(rows.filter(queue_name__in=list(names)), "queue_name", "starts_at"))
    points: dict[str, dict[datetime, Point]] = {}
    for name, at, *sums in found:
        points.setdefault(name, {})[at] = _point(at, sums)
    return {name: fill(starts, of_queue) for name, of_queue in sorted(points.items())}


def rates_by_task(now: datetime | None = None) -> dict[str, Rate]:
    """The rates of each task that ran in the last hour, the most frequent first, at most 200."""
    starts = hour_starts(now)
    end = starts[-incomplete_minutes()]
    hourly_minutes = MINUTES_PER_HOUR - incomplete_minutes()
    is_recent = Q(starts_at__gte=end - MINUTE * RATE_MINUTES)
    failures, ended = F("failed") + F("retried"), F("finished") + F("failed") + F("retried")
    complete = _minutes(starts[0]).filter(starts_at__lt=end)
    sums = complete.values("task_path").annotate(
        recent=Sum(ended, filter=is_recent, default=0),
        recent_failures=Sum(failures, filter=is_recent, default=0),
        hourly=Sum(ended),
        hourly_failures=Sum(failures),
    )
    columns = ("task_path", "recent", "recent_failures", "hourly", "hourly_failures")
    rows = sums.order_by("-hourly", "task_path").values_list(*columns)[:MAX_NAMES]
    return {
        path: Rate(
            int(recent) / RATE_MINUTES,
            int(recent_failures) / RATE_MINUTES,
            int(hourly) / hourly_minutes,
            int(hourly_failures) / hourly_minutes,
        )
        for path, recent, recent_failures, hourly, hourly_failures in rows
    }


def rate_of(points: Sequence[Point]) -> Rate:
    """The rates of an hour. Minutes that are not complete do not count."""
    complete = points[: -incomplete_minutes()]
    recent = complete[-RATE_MINUTES:]
    return Rate(*_mean(recent), *_mean(complete))


def incomplete_minutes() -> int:
    """The current minute, and those before it of which not all processes may have written the sums."""
    since_heartbeat = ceil(steady_queue.process_heartbeat_interval / MINUTE)
    return 1 + min(since_heartbeat, MINUTES_PER_HOUR - RATE_MINUTES - 1)


def hour_starts(now: datetime | None = None) -> list[datetime]:
    """When the last 60 minutes began, the current one included."""
    current = (now or read_now()).replace(second=0, microsecond=0)
    return [current - MINUTE * ago for ago in reversed(range(MINUTES_PER_HOUR))]


def fill(starts: Iterable[datetime], found: Mapping[datetime, Point]) -> list[Point]:
    """A point for each of these times; without what ran elsewhere."""
    return [found[at] if at in found else Point(at) for at in starts]


def read_now() -> datetime:
    """The database's time."""
    return run_one(read_database_time)


def _hour_of(moment: datetime) -> datetime:
    """The beginning of the hour: in UTC, like the hours that are stored."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _mean(points: Sequence[Point]) -> tuple[float, float]:
    if not points:
        return 0.0, 0.0
    failures = sum(point.failed + point.retried for point in points)
    return sum(point.ended for point in points) / len(points), failures / len(points)


def _rows() -> QuerySet[TaskStatistics]:
    return TaskStatistics.objects.using(queue_alias()).order_by()


def _minutes(since: datetime) -> QuerySet[TaskStatistics]:
    return _rows().filter(seconds=MINUTE.seconds, starts_at__gte=since)


def _sums(rows: QuerySet[TaskStatistics], *names: str) -> QuerySet[TaskStatistics, tuple[Any, ...]]:
    """These columns, and for each of their combinations the sums and the longest times."""
    # Without a kind of number Django converts none of the thousands of values: `_point` does.
    sums = {f"sum_{name}": Sum(F(name), output_field=_NUMBER) for name in _COUNTS}
    longest = {f"max_{name}": Max(F(name), output_field=_NUMBER) for name in _LONGEST}
    found: QuerySet[TaskStatistics, tuple[Any, ...]]
    found = rows.values(*names).annotate(**sums, **longest).values_list(*names, *sums, *longest)
    return found


def _point(at: datetime, sums: Sequence[Any]) -> Point:
    """The point of a time, of what `_sums` found: decimal numbers on some servers."""
    started, finished, failed, retried, waits, run, wait, longest_run, longest_wait = map(int, sums)
    ended = finished + failed + retried
    return Point(
        *(at, started, finished, failed, retried),
        mean_run_seconds=run / ended / 1000 if ended else None,
        longest_run_seconds=longest_run / 1000 if ended else None,
        mean_wait_seconds=wait / waits / 1000 if waits else None,
        longest_wait_seconds=longest_wait / 1000 if waits else None,
        waits=waits,
    )


def _add(at: datetime, points: Sequence[Point]) -> Point:
    started, finished, failed, retried = (sum(counts) for counts in zip(*(one[1:5] for one in points), strict=True))
    ran, waited = [one for one in points if one.ended], [one for one in points if one.waits]
    return Point(
        *(at, started, finished, failed, retried),
        mean_run_seconds=_mean_of((one.mean_run_seconds, one.ended) for one in ran),
        longest_run_seconds=max((one.longest_run_seconds or 0.0 for one in ran), default=None),
        mean_wait_seconds=_mean_of((one.mean_wait_seconds, one.waits) for one in waited),
        longest_wait_seconds=max((one.longest_wait_seconds or 0.0 for one in waited), default=None),
        waits=sum(one.waits for one in waited),
    )


def _mean_of(means: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean of means, each with the number of its values; None without any."""
    known = [(mean or 0.0, count) for mean, count in means]
    return sum(mean * count for mean, count in known) / sum(count for _, count in known) if known else None
