"""Charts are valid SVG for every number, and say in words what they show."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from django.utils import translation

from steady_queue.dashboard import charts

MINUTES = [f"10:{minute:02}" for minute in range(60)]
EXTREMES = [0, 1, 7, 10**9, 10**18, -5]


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{svg}</div>")


def geometry(svg: str) -> list[float]:
    """The numbers of all attributes that place shapes."""
    texts = [
        element.attrib[name]
        for element in parse(svg).iter()
        for name in ("x", "y", "width", "height", "d")
        if name in element.attrib
    ]
    return [float(number) for text in texts for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


def test_an_hour_of_tasks_is_a_stack_of_bars_for_each_minute_with_some() -> None:
    finished, failed = [0] * 60, [0] * 60
    finished[5], failed[5], finished[59] = 30, 10, 20

    svg = charts.draw_throughput(finished, failed, MINUTES)

    bars = [element.attrib for element in parse(svg).iter("rect") if element.attrib["class"] != "sq-hover"]
    assert [(bar["class"], bar["y"], bar["height"]) for bar in bars] == [
        ("sq-finished", "30", "90"),
        ("sq-failed", "0", "30"),
        ("sq-finished", "60", "60"),
        ("sq-failed", "60", "0"),
    ]
    assert "<title>10:05: 30 finished, 10 failed attempts</title>" in svg
    assert "<desc>50 finished and 10 failed attempts; at most 40 in a minute, at 10:05.</desc>" in svg


def test_a_line_of_durations_has_gaps_where_nothing_ended() -> None:
    means = [1.0, 2.0, None, 4.0]

    svg = charts.draw_durations("Waiting time", means, means, ["1", "2", "3", "4"])

    assert re.findall(r'class="sq-line" d="([^"]*)"', svg) == ["M75 90L225 60h0M525 0h0"]
    assert "<desc>At most 4.0 s, at 4.</desc>" in svg


@pytest.mark.parametrize("values", [[], [0], [0] * 60, EXTREMES], ids=["none", "zero", "zeros", "extremes"])
def test_every_shape_is_inside_its_chart_for_zero_and_huge_numbers(values: list[int]) -> None:
    times = MINUTES[: len(values)]
    drawn = [
        charts.draw_throughput(values, values[::-1], times),
        charts.draw_durations("Waiting time", [float(value) for value in values], [None] * len(values), times),
        charts.draw_durations("Waiting time", [None] * len(values), [float("nan")] * len(values), times),
        charts.draw_counts("Runs", values, times, "Runs."),
        charts.draw_sparkline(values, "Tasks per minute"),
        *(charts.draw_gauge(share, "In use") for share in (0, 0.5, 1, 7.5, -1, float("inf"), float("nan"))),
    ]
    for svg in drawn:
        assert all(0 <= number <= 600.01 for number in geometry(svg))
        assert not re.search(r"nan|inf\b|e\+", svg)
        assert parse(svg).find(".//title") is not None


def test_text_in_a_chart_is_escaped() -> None:
    hostile = '<script>alert("1")</script>'
    for svg in (
        charts.draw_sparkline([1], hostile),
        charts.draw_gauge(0.5, hostile),
        charts.draw_durations(hostile, [1], [1], [hostile]),
        charts.draw_throughput([1], [1], [hostile]),
        charts.draw_counts(hostile, [1], [hostile], hostile),
    ):
        assert "<script" not in svg
        assert parse(svg).find(".//title") is not None


@pytest.mark.parametrize("language", ["de", "ar"])
def test_attributes_of_charts_are_the_same_in_every_language(language: str) -> None:
    english = charts.draw_throughput([1234, 5], [2, 3], ["1", "2"]), charts.draw_gauge(0.123, "In use")
    with translation.override(language):
        assert (charts.draw_throughput([1234, 5], [2, 3], ["1", "2"]), charts.draw_gauge(0.123, "In use")) == english


def test_an_axis_ends_at_a_round_number() -> None:
    tops = [(0, 2), (2, 2), (3, 4), (5, 6), (7, 10), (11, 20), (50, 60), (99, 100), (101, 200), (10**9 + 1, 2 * 10**9)]
    for largest, top in tops:
        assert charts.count_axis(largest).top == top
    assert charts.count_axis(1500).labels == ["2k", "1k", "0"]
    assert charts.duration_axis(0).labels == ["10 ms", "5 ms", "0"]
    assert charts.duration_axis(45).labels == ["1 min", "30 s", "0"]
    assert charts.duration_axis(9 * 86_400).labels == ["10 d", "5 d", "0"]
