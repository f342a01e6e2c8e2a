"""Charts as inline SVG, made of numbers on the server. Classes of dashboard.css give them their colours.

Everything that goes into an SVG is a number or is escaped, and no number is localized: attributes are the same in every
language. Each chart has a title and a description, which is its text alternative. The shapes are stretched to the width
of the page; labels are HTML beside the SVG, so that they keep their size.
"""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import TYPE_CHECKING, NamedTuple

from django.utils.html import format_html, format_html_join

from steady_queue.monitoring.text import show_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from django.utils.safestring import SafeString

WIDTH = 600
HEIGHT = 120
#: The share of its place that a bar fills.
BAR_SHARE = 0.8
#: Tops of an axis whose halves are whole as well.
_COUNTS = (2, 4, 6, 10)
_DURATIONS = (0.01, 0.02, 0.1, 0.2, 1, 2, 4, 10, 20, 60, 120, 240, 600, 1_200, 3_600, 7_200, 14_400, 43_200, 86_400)
_DAY_SECONDS = 86_400
_A = {"minute": "a minute", "hour": "an hour"}

_FIGURE = """<figure class="sq-figure">
<div class="sq-y" aria-hidden="true">{y}</div>
<svg class="sq-chart" viewBox="0 0 600 120" preserveAspectRatio="none" role="img">
<title>{title}</title><desc>{text}</desc>
<path class="sq-grid-line" d="M0 0H600M0 60H600"/>{shapes}<path class="sq-axis" d="M0 120H600"/></svg>
<div class="sq-x" aria-hidden="true">{x}</div>
<figcaption class="sq-quiet">{text}</figcaption>
</figure>"""
_BAR = '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>'
_MINUTE = """<g><title>{}: {} finished, {} failed attempts</title>\
<rect class="sq-hover" x="{}" y="0" width="{}" height="120"/>{}{}</g>"""
_SPARKLINE = """<svg class="sq-sparkline" viewBox="0 0 120 24" preserveAspectRatio="none" role="img">\
<title>{}</title><path class="sq-finished" d="{}"/></svg>"""
_GAUGE = """<svg class="sq-gauge" viewBox="0 0 100 12" preserveAspectRatio="none" role="img"><title>{}</title>\
<rect class="sq-gauge-size" x="0.5" y="0.5" width="99" height="11"/>\
<rect class="{}" x="0.5" y="0.5" width="{}" height="11"/></svg>"""


class Axis(NamedTuple):
    """A vertical axis from zero to `top`."""

    top: float
    show: Callable[[float], str]

    def height_of(self, value: float, height: float = HEIGHT) -> float:
        return height * min(value / self.top, 1.0)

    @property
    def labels(self) -> list[str]:
        return [self.show(self.top), self.show(self.top / 2), "0"]


def draw_throughput(
    finished: Sequence[int], failed: Sequence[int], times: Sequence[str], unit: str = "minute"
) -> SafeString:
    """Bars of the finished tasks and, on top, the failed attempts of each minute or hour; `times` names these."""
    minutes = list(zip(times, _clean(finished), _clean(failed), strict=True))
    axis = count_axis(max((succeeded + errors for _, succeeded, errors in minutes), default=0))
    place = WIDTH / max(len(minutes), 1)
    bars = format_html_join(
        "",
        "{}",
        (
            (_draw_minute(axis, index * place, place, minute),)
            for index, minute in enumerate(minutes)
            if minute[1] or minute[2]
        ),
    )
    title = f"Finished tasks and failed attempts in each {unit}"
    return _draw_figure(title, _describe(minutes, unit), axis, times, bars)


def draw_counts(title: str, counts: Sequence[int], times: Sequence[str], text: str) -> SafeString:
    """Bars of counts, each with its time and its count as a tooltip. `text` is the text alternative."""
    numbers = _clean(counts)
    axis = count_axis(max(numbers, default=0))
    place = WIDTH / max(len(numbers), 1)
    bars = format_html_join(
        "",
        "<g><title>{}: {}</title>" + _BAR + "</g>",
        (
            (
                *(time, f"{number:,.0f}", "sq-finished", _n(index * place)),
                *(_n(HEIGHT - axis.height_of(number)), _n(place * BAR_SHARE), _n(axis.height_of(number))),
            )
            for index, (time, number) in enumerate(zip(times, numbers, strict=True))
        ),
    )
    return _draw_figure(title, text, axis, times, bars)


def draw_durations(
    title: str, means: Sequence[float | None], longest: Sequence[float | None], times: Sequence[str]
) -> SafeString:
    """Lines of the mean and the longest duration in each minute or hour; one without a duration is a gap."""
    means, longest = _known(means), _known(longest)
    axis = duration_axis(max(_clean([*means, *longest]), default=0.0))
    shapes = format_html(
        '<path class="sq-area" d="{}"/><path class="sq-line-quiet" d="{}"/><path class="sq-line" d="{}"/>',
        _area(axis, means),
        _line(axis, longest),
        _line(axis, means),
    )
    known = [(value, time) for value, time in zip(longest, times, strict=True) if value is not None]
    text = "No task ended in this time."
    if known:
        most, time = max(known, key=lambda pair: pair[0])
        text = f"At most {show_seconds(most)}, at {time}."
    return _draw_figure(title, text, axis, times, shapes)


def draw_sparkline(values: Sequence[int], title: str) -> SafeString:
    """Small bars without labels, as one shape. The title is the text alternative."""
    counts = _clean(values)
    top = max(counts, default=0) or 1
    place = 120 / max(len(counts), 1)
    width = _n(place * BAR_SHARE)
    bars = [
        f"M{_n(index * place)} 24V{_n(24 - 24 * count / top)}h{width}V24z"
        for index, count in enumerate(counts)
        if count
    ]
    return format_html(_SPARKLINE, title, "".join(bars))


def draw_gauge(share: float, title: str) -> SafeString:
    """A horizontal bar that is filled up to a share from 0 to 1. The title is the text alternative."""
    share = min(_clean([share])[0], 1.0)
    return format_html(_GAUGE, title, "sq-gauge-full" if share >= 1 else "sq-gauge-used", _n(99 * share))


# -- axes -------------------------------------------------------------------------------------------------------------


def count_axis(largest: float) -> Axis:
    """An axis for counts whose top is a round number, at least 2."""
    return Axis(_round_up(largest), show_count)


def duration_axis(largest_seconds: float) -> Axis:
    """An axis for durations whose top is a round duration."""
    for top in _DURATIONS:
        if largest_seconds <= top:
            return Axis(top, show_seconds)
    return Axis(_round_up(largest_seconds / _DAY_SECONDS) * _DAY_SECONDS, show_seconds)


def show_count(number: float) -> str:
    """Return a count in few characters: 950, 1.5k, 20M."""
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:,.1f}".removesuffix(".0") + unit
    return f"{number:.0f}"


def _round_up(number: float) -> float:
    if number <= _COUNTS[0]:
        return _COUNTS[0]
    scale = 10.0 ** floor(log10(number))
    return next((top * scale for top in (1, *_COUNTS) if number <= top * scale and top * scale % 2 == 0), 20 * scale)


# -- shapes -----------------------------------------------------------------------------------------------------------


def _draw_figure(title: str, text: str, axis: Axis, times: Sequence[str], shapes: SafeString) -> SafeString:
    ends = [times[0], times[len(times) // 2], times[-1]] if times else []
    return format_html(_FIGURE, title=title, text=text, y=_spans(axis.labels), x=_spans(ends), shapes=shapes)


def _spans(texts: Iterable[str]) -> SafeString:
    return format_html_join("", "<span>{}</span>", ((text,) for text in texts))


def _draw_minute(axis: Axis, left: float, place: float, minute: tuple[str, float, float]) -> SafeString:
    time, finished, failed = minute
    low, high = axis.height_of(finished), axis.height_of(failed)
    width = _n(place * BAR_SHARE)
    # The whole height reacts to the pointer, so that the numbers of a low bar can be read as well.
    return format_html(
        _MINUTE,
        time,
        f"{finished:,.0f}",
        f"{failed:,.0f}",
        _n(left),
        _n(place),
        format_html(_BAR, "sq-finished", _n(left), _n(HEIGHT - low), width, _n(low)),
        format_html(_BAR, "sq-failed", _n(left), _n(HEIGHT - low - high), width, _n(high)),
    )


def _line(axis: Axis, values: Sequence[float | None]) -> str:
    return "".join(
        "".join(f"{'L' if index else 'M'}{_n(x)} {_n(y)}" for index, (x, y) in enumerate(run)) + "h0"
        for run in _runs(axis, values)
    )


def _area(axis: Axis, values: Sequence[float | None]) -> str:
    return "".join(
        f"M{_n(run[0][0])} {HEIGHT}" + "".join(f"L{_n(x)} {_n(y)}" for x, y in run) + f"V{HEIGHT}Z"
        for run in _runs(axis, values)
    )


def _runs(axis: Axis, values: Sequence[float | None]) -> list[list[tuple[float, float]]]:
    """The points of the values, in groups without gaps."""
    place = WIDTH / max(len(values), 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(((index + 0.5) * place, HEIGHT - axis.height_of(value)))
    return [run for run in runs if run]


def _describe(minutes: Sequence[tuple[str, float, float]], unit: str) -> str:
    finished, failed = sum(minute[1] for minute in minutes), sum(minute[2] for minute in minutes)
    if not finished + failed:
        return "No task ended in this time."
    time, *most = max(minutes, key=lambda minute: minute[1] + minute[2])
    total = f"{finished:,.0f} finished and {failed:,.0f} failed attempts"
    return f"{total}; at most {sum(most):,.0f} in {_A[unit]}, at {time}."


def _clean(values: Iterable[float | None]) -> list[float]:
    """The values, with zero for those that cannot be drawn."""
    return [value if value is not None and isfinite(value) and value > 0 else 0 for value in values]


def _known(values: Iterable[float | None]) -> list[float | None]:
    """The values, with None for those that are no number."""
    return [max(value, 0.0) if value is not None and isfinite(value) else None for value in values]


def _n(number: float) -> str:
    """A number as an attribute of SVG."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
