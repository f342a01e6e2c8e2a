"""Times at the ends of their range: they are shown and read without errors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

from steady_queue.monitoring.times import parse_past_time, parse_time, show_local


def test_a_time_is_shown_in_the_current_time_zone_if_the_zone_can_express_it() -> None:
    with override_settings(TIME_ZONE="Asia/Tokyo"):
        assert show_local(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31 21:00:00"
        assert show_local(datetime(9999, 12, 31, 23, 59, tzinfo=UTC)) == "9999-12-31 23:59:00"
        assert show_local(datetime(2026, 1, 31, 12)) == "2026-01-31 12:00:00"
    with override_settings(TIME_ZONE="America/Lima"):
        assert show_local(datetime(1, 1, 1, 1, 2, 3, tzinfo=UTC)).endswith("-01-01 01:02:03")


@pytest.mark.parametrize("text", [None, 5, "", "x", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_what_is_not_a_time_or_out_of_range_is_none(text: object) -> None:
    assert parse_time(text) is None
    assert datetime.now(UTC) - parse_past_time(text) < timedelta(minutes=1)


def test_times_of_requests_are_in_utc_and_a_past_time_is_not_later_than_now() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_time("2026-01-31T14:00:00+02:00") == parse_time("2026-01-31T12:00:00") == moment
    assert parse_past_time("2026-01-31T14:00:00+02:00") == moment
    assert parse_past_time("9000-01-01T00:00:00+00:00") <= datetime.now(UTC)
