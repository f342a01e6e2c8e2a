"""What ran in the last hour and day, as the processes have counted it: no job is read.

A process writes the sums of its minutes with its heartbeat, so the last minute or two are not complete.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import F, Field, Max, Q, Sum
from django.db.models.functions import TruncHour

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
#: The complete minutes over which a rate is the mean.
RATE_MINUTES = 5
#: Queues and tasks whose rates are read.
MAX_NAMES = 200

_COUNTS = ("started", "finished", "failed", "retried", "run_milliseconds", "wait_milliseconds")
_LONGEST = ("longest_run_milliseconds", "longest_wait_milliseconds")
_NUMBER: Field[Any, Any] = Field()


class Point(NamedTuple):
    """What ran in a minute or an hour, which begins at `at`. The times are None if no attempt ended in it."""

    at: datetime
    started: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    mean_run_seconds: float | None = None
    longest_run_seconds: float | None = None
    mean_wait_seconds: float | None = None
    longest_wait_seconds: float | None = None

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
            if point.started or point.ended:
                points.setdefault(point.at, []).append(point)
    return fill(hour_starts(now), {at: _add(at, parts) for at, parts in points.items()})


def read_day(now: datetime | None = None, queue: str | None = None) -> list[Point]:
    """The last 24 hours, the current one included, in order; of all queues or of one."""
    current = (now or read_now()).replace(minute=0, second=0, microsecond=0)
    starts = [current - HOUR * ago for ago in reversed(range(HOURS_PER_DAY))]
    # Minutes are deleted when they are added to their hour: what happened is in exactly one row.
    rows = _rows().filter(seconds__in=(MINUTE.seconds, HOUR.seconds), starts_at__gte=starts[0])
    if queue is not None:
        rows = rows.filter(queue_name=queue)
    by_hour = rows.annotate(hour=TruncHour("starts_at", tzinfo=UTC))
    return fill(starts, {at: _point(at, sums) for at, *sums in _sums(by_hour, "hour")})


def hours_by_queue(now: datetime | None = None, queues: Sequence[str] | None = None) -> dict[str, list[Point]]:
    """The last 60 minutes of each queue that had tasks, or of these."""
    starts = hour_starts(now)
    rows = _minutes(starts[0])
    if queues is not None:
        rows = rows.filter(queue_name__in=list(queues))
    return _by_name("queue_name", starts, rows)


def rates_by_task(now: datetime | None = None) -> dict[str, Rate]:
    """The rates of each task that ran in the last hour, the most frequent first, at most 200."""
    starts = hour_starts(now)
    is_recent = Q(starts_at__gte=starts[-1] - MINUTE * RATE_MINUTES)
    failures, ended = F("failed") + F("retried"), F("finished") + F("failed") + F("retried")
    complete = _minutes(starts[0]).filter(starts_at__lt=starts[-1])
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
            int(hourly) / (MINUTES_PER_HOUR - 1),
            int(hourly_failures) / (MINUTES_PER_HOUR - 1),
        )
        for path, recent, recent_failures, hourly, hourly_failures in rows
    }


def rate_of(points: Sequence[Point]) -> Rate:
    """The rates of an hour. The current minute is not complete and does not count."""
    complete = points[:-1]
    recent = complete[-RATE_MINUTES:]
    return Rate(*_mean(recent), *_mean(complete))


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


def _mean(points: Sequence[Point]) -> tuple[float, float]:
    if not points:
        return 0.0, 0.0
    failures = sum(point.failed + point.retried for point in points)
    return sum(point.ended for point in points) / len(points), failures / len(points)


def _by_name(name: str, starts: Sequence[datetime], rows: QuerySet[TaskStatistics]) -> dict[str, list[Point]]:
    found: dict[str, dict[datetime, Point]] = {}
    for its, at, *sums in _sums(rows, name, "starts_at")[: MAX_NAMES * MINUTES_PER_HOUR]:
        found.setdefault(its, {})[at] = _point(at, sums)
    return {its: fill(starts, points) for its, points in sorted(found.items())}


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
    started, finished, failed, retried, run, wait, longest_run, longest_wait = map(int, sums)
    ended = finished + failed + retried
    if not ended:
        return Point(at, started)
    means = run / ended / 1000, longest_run / 1000, wait / ended / 1000, longest_wait / 1000
    return Point(at, started, finished, failed, retried, *means)


def _add(at: datetime, points: Sequence[Point]) -> Point:
    started, finished, failed, retried = (sum(counts) for counts in zip(*(one[1:5] for one in points), strict=True))
    ended = finished + failed + retried
    if not ended:
        return Point(at, started)
    return Point(
        *(at, started, finished, failed, retried),
        mean_run_seconds=sum((one.mean_run_seconds or 0.0) * one.ended for one in points) / ended,
        longest_run_seconds=max(one.longest_run_seconds or 0.0 for one in points),
        mean_wait_seconds=sum((one.mean_wait_seconds or 0.0) * one.ended for one in points) / ended,
        longest_wait_seconds=max(one.longest_wait_seconds or 0.0 for one in points),
    )
