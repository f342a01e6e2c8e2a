"""Charts of what the processes counted and measured: `{% load steady_queue_charts %}`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils import timezone

from steady_queue.dashboard import charts
from steady_queue.monitoring import text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.utils.safestring import SafeString

    from steady_queue.monitoring.process_list import LaneUse
    from steady_queue.monitoring.statistics import Point

register = template.Library()


@register.simple_tag
def throughput_chart(points: Sequence[Point], unit: str) -> SafeString:
    """The finished tasks and the failed attempts of each minute or hour, also attempts that are followed by another."""
    failed = [point.failed + point.retried for point in points]
    return charts.draw_throughput([point.finished for point in points], failed, _times(points), unit)


@register.simple_tag
def wait_chart(points: Sequence[Point], unit: str) -> SafeString:
    """How long the tasks of each minute or hour had waited since they were due."""
    means = [point.mean_wait_seconds for point in points]
    longest = [point.longest_wait_seconds for point in points]
    return charts.draw_durations(f"How long tasks waited, in each {unit}", means, longest, _times(points))


@register.simple_tag
def run_chart(points: Sequence[Point], unit: str) -> SafeString:
    """How long the tasks of each minute or hour ran."""
    means = [point.mean_run_seconds for point in points]
    longest = [point.longest_run_seconds for point in points]
    return charts.draw_durations(f"How long tasks ran, in each {unit}", means, longest, _times(points))


@register.simple_tag
def sparkline(values: Sequence[int]) -> SafeString:
    """The tasks of each minute of the last hour."""
    most = f"{max(values, default=0):,}"
    return charts.draw_sparkline(values, f"{sum(values):,} attempts ended in the last hour, at most {most} in a minute")


@register.simple_tag
def gauge(share: float) -> SafeString:
    """The part of something that is in use, from 0 to 1."""
    return charts.draw_gauge(share, f"{share:.0%} in use")


@register.simple_tag
def lane_gauge(lane: LaneUse) -> SafeString:
    """How much of the capacity of a lane is in use."""
    title = f"{text.show_line(lane.name)}: {lane.used:,} of {lane.size:,} in use"
    return charts.draw_gauge(lane.used / lane.size if lane.size else 0, title)


@register.filter
def rate(per_minute: float) -> str:
    """Tasks per minute: "0", "0.4", "120"."""
    return f"{per_minute:.1f}".removesuffix(".0") if per_minute < 10 else f"{per_minute:,.0f}"


def _times(points: Sequence[Point]) -> list[str]:
    moments = [timezone.localtime(point.at) if timezone.is_aware(point.at) else point.at for point in points]
    return [f"{moment:%H:%M}" for moment in moments]
