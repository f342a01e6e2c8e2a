"""The period that the charts of a page show: `?period=hour`, minute by minute, or `?period=day`, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.monitoring.statistics import read_day

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from django.http import HttpRequest

    from steady_queue.monitoring.statistics import Point


class ChartPeriod(NamedTuple):
    """How long it is, and what has a point in its charts."""

    name: str
    unit: str


HOUR, DAY = ChartPeriod("hour", "minute"), ChartPeriod("day", "hour")
PERIODS = (HOUR, DAY)


def read_period(request: HttpRequest) -> ChartPeriod:
    """The period in the query of the request; the hour if there is none."""
    return DAY if request.GET.get("period") == DAY.name else HOUR


def read_points(
    period: ChartPeriod, hour: Sequence[Point], now: datetime | None = None, queue: str | None = None
) -> Sequence[Point]:
    """The points of a period, of all queues or of one; those of the last hour have been read."""
    return read_day(now, queue) if period is DAY else hour
