"""Which missed ticks are enqueued."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from steady_queue.recurring.catch_up import MAX_TICKS, choose_ticks
from steady_queue.recurring.schedule import every, parse

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(("policy", "hours"), [("none", []), ("last", [12]), ("all", [8, 9, 10, 11, 12])])
def test_missed_ticks_follow_the_policy(policy: str, hours: list[int]) -> None:
    found = choose_ticks(parse("@hourly"), policy, NOW - 5 * HOUR, NOW)
    assert [tick.hour for tick in found] == hours


@pytest.mark.parametrize("policy", ["none", "last", "all"])
def test_ticks_that_are_only_late_are_never_left_out(policy: str) -> None:
    found = choose_ticks(every(timedelta(seconds=20)), policy, NOW - timedelta(seconds=50), NOW)
    assert [(NOW - tick).total_seconds() for tick in found] == [40, 20, 0]


def test_the_last_one_is_not_added_to_those_that_are_late() -> None:
    found = choose_ticks(every(timedelta(seconds=30)), "last", NOW - HOUR, NOW)
    assert [(NOW - tick).total_seconds() for tick in found] == [30, 0]


def test_all_has_a_bound_and_keeps_the_last_ones() -> None:
    found = choose_ticks(every(timedelta(seconds=5)), "all", NOW - timedelta(days=400), NOW)
    assert len(found) == MAX_TICKS
    assert found[-1] == NOW
    assert found[0] == NOW - timedelta(seconds=5) * (len(found) - 1)


def test_nothing_was_missed() -> None:
    for policy in ("none", "last", "all"):
        assert choose_ticks(parse("0 3 * * *"), policy, NOW - 5 * HOUR, NOW) == []


@pytest.mark.parametrize("missed", [999, 1_000, 1_001, 1_500, 2_500])
def test_all_makes_up_for_exactly_the_last_thousand(missed: int) -> None:
    minute = timedelta(minutes=1)
    found = choose_ticks(parse("* * * * *"), "all", NOW - missed * minute, NOW)
    assert found == [NOW - n * minute for n in range(min(missed, MAX_TICKS))][::-1]


def test_all_makes_up_for_the_end_of_a_burst_that_was_long_ago() -> None:
    """Every second of a month, half a year ago: more ticks than can be listed."""
    found = choose_ticks(parse("* * * 11 * *"), "all", NOW - timedelta(days=300), NOW)
    end = datetime(2025, 12, 1, tzinfo=UTC)
    assert found == [end - timedelta(seconds=n) for n in range(1, MAX_TICKS + 1)][::-1]
