"""What ran in the last hour and day, as the processes have counted it: no job is read.

A process writes the sums of its minutes with its heartbeat, so the last minute or two are not complete.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models import F, Max, Q, Sum
from django.db.models.functions import TruncHour

from steady_queue.db.aliases import queue_alias
from steady_queue.db.transactions import run_one
from steady_queue.models import TaskStatistics
from steady_queue.store.operations.recurring import read_database_time

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
    return fill(starts, {row["starts_at"]: row for row in _sums(_minutes(starts[0]), "starts_at")})


def read_day(now: datetime | None = None) -> list[Point]:
    """The last 24 hours, the current one included, in order."""
    current = (now or read_now()).replace(minute=0, second=0, microsecond=0)
    starts = [current - HOUR * ago for ago in reversed(range(HOURS_PER_DAY))]
    # Minutes are deleted when they are added to their hour: what happened is in exactly one row.
    rows = _rows().filter(seconds__in=(MINUTE.seconds, HOUR.seconds), starts_at__gte=starts[0])
    by_hour = rows.annotate(hour=TruncHour("starts_at", tzinfo=UTC))
    return fill(starts, {row["hour"]: row for row in _sums(by_hour, "hour")})


def rates_by_queue(now: datetime | None = None, queues: Sequence[str] | None = None) -> dict[str, list[Point]]:
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


def fill(starts: Iterable[datetime], found: Mapping[datetime, Mapping[str, Any]]) -> list[Point]:
    """A point for each of these times; without what ran elsewhere."""
    return [_point(at, found[at]) if at in found else Point(at) for at in starts]


def read_now() -> datetime:
    """The database's time."""
    return run_one(read_database_time)


def _mean(points: Sequence[Point]) -> tuple[float, float]:
    if not points:
        return 0.0, 0.0
    failures = sum(point.failed + point.retried for point in points)
    return sum(point.ended for point in points) / len(points), failures / len(points)


def _by_name(name: str, starts: Sequence[datetime], rows: QuerySet[TaskStatistics]) -> dict[str, list[Point]]:
    found: dict[str, dict[datetime, Mapping[str, Any]]] = {}
    for row in _sums(rows, name, "starts_at")[: MAX_NAMES * MINUTES_PER_HOUR]:
        found.setdefault(row[name], {})[row["starts_at"]] = row
    return {its: fill(starts, points) for its, points in sorted(found.items())}


def _rows() -> QuerySet[TaskStatistics]:
    return TaskStatistics.objects.using(queue_alias()).order_by()


def _minutes(since: datetime) -> QuerySet[TaskStatistics]:
    return _rows().filter(seconds=MINUTE.seconds, starts_at__gte=since)


def _sums(rows: QuerySet[TaskStatistics], *names: str) -> QuerySet[TaskStatistics, dict[str, Any]]:
    sums = {f"sum_{name}": Sum(F(name)) for name in _COUNTS}
    longest = {f"max_{name}": Max(F(name)) for name in _LONGEST}
    found: QuerySet[TaskStatistics, dict[str, Any]] = rows.values(*names).annotate(**sums, **longest)
    return found


def _point(at: datetime, row: Mapping[str, Any]) -> Point:
    finished, failed, retried = (int(row[f"sum_{name}"]) for name in ("finished", "failed", "retried"))
    point = Point(at, int(row["sum_started"]), finished, failed, retried)
    if not point.ended:
        return point
    return point._replace(
        mean_run_seconds=int(row["sum_run_milliseconds"]) / point.ended / 1000,
        longest_run_seconds=int(row["max_longest_run_milliseconds"]) / 1000,
        mean_wait_seconds=int(row["sum_wait_milliseconds"]) / point.ended / 1000,
        longest_wait_seconds=int(row["max_longest_wait_milliseconds"]) / 1000,
    )
