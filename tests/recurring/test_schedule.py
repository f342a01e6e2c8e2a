"""When schedules tick: every expected instant is written out, in UTC."""

from __future__ import annotations

import sys
import threading
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from steady_queue.errors import ConfigurationError
from steady_queue.recurring.cron import _Days
from steady_queue.recurring.schedule import MAX_INTERVAL, Schedule, every, parse

MADRID, NEW_YORK, LORD_HOWE = "Europe/Madrid", "America/New_York", "Australia/Lord_Howe"


def ticks(expression: str, zone: str, after: str, until: str) -> list[str]:
    """The ticks between two instants, both written as month-day hour:minute of 2026 in UTC."""
    found = parse(expression, zone).due(instant(after), instant(until))
    return [f"{tick:%m-%d %H:%M}" for tick in found]


def instant(text: str) -> datetime:
    return datetime.strptime(f"2026-{text}", "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "expression", "after", "until", "expected"),
    [
        # In spring a time in the gap fires at the first moment after it; in autumn the first of two fires.
        (MADRID, "30 2 * * *", "03-27 12:00", "03-31 00:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        (MADRID, "30 2 * * *", "10-23 12:00", "10-26 12:00", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        (NEW_YORK, "30 2 * * *", "03-07 00:00", "03-09 12:00", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
        (NEW_YORK, "30 1 * * *", "10-31 00:00", "11-02 12:00", ["10-31 05:30", "11-01 05:30", "11-02 06:30"]),
        (LORD_HOWE, "15 2 * * *", "10-02 12:00", "10-05 12:00", ["10-02 15:45", "10-03 15:30", "10-04 15:15"]),
        (LORD_HOWE, "45 1 * * *", "04-03 12:00", "04-06 00:00", ["04-03 14:45", "04-04 14:45", "04-05 15:15"]),
        # Several times of one gap are one tick.
        (MADRID, "*/15 2 * * *", "03-29 00:00", "03-29 04:00", ["03-29 01:00"]),
        (MADRID, "*/30 2,3 * * *", "03-29 00:00", "03-29 04:00", ["03-29 01:00", "03-29 01:30"]),
        (MADRID, "*/30 2 * * *", "10-25 00:00", "10-25 04:00", ["10-25 00:30"]),
        # Intervals go on.
        (
            MADRID,
            "*/30 * * * *",
            "03-29 00:00",
            "03-29 02:00",
            ["03-29 00:30", "03-29 01:00", "03-29 01:30", "03-29 02:00"],
        ),
        (
            MADRID,
            "0 * * * *",
            "10-24 23:00",
            "10-25 03:00",
            ["10-25 00:00", "10-25 01:00", "10-25 02:00", "10-25 03:00"],
        ),
        (NEW_YORK, "@hourly", "03-08 05:00", "03-08 08:00", ["03-08 06:00", "03-08 07:00", "03-08 08:00"]),
        (NEW_YORK, "20 * * * *", "11-01 04:30", "11-01 07:30", ["11-01 05:20", "11-01 06:20", "11-01 07:20"]),
        (
            LORD_HOWE,
            "*/15 * * * *",
            "10-03 15:00",
            "10-03 16:00",
            ["10-03 15:15", "10-03 15:30", "10-03 15:45", "10-03 16:00"],
        ),
        (
            LORD_HOWE,
            "*/30 * * * *",
            "04-04 14:00",
            "04-04 16:00",
            ["04-04 14:30", "04-04 15:00", "04-04 15:30", "04-04 16:00"],
        ),
    ],
)
def test_days_on_which_the_clocks_change(
    zone: str, expression: str, after: str, until: str, expected: list[str]
) -> None:
    assert ticks(expression, zone, after, until) == expected


def test_a_repeated_midnight_hour_of_a_yearly_day_is_not_lost() -> None:
    # Beirut puts its clocks back at midnight: the last hour of the day before comes twice.
    changed = datetime(2026, 10, 24, 21, tzinfo=UTC)
    found = parse("30 * 24 10 *", "Asia/Beirut").due(changed - timedelta(hours=2), changed + timedelta(hours=3))
    assert [f"{tick:%d %H:%M}" for tick in found] == ["24 19:30", "24 20:30", "24 21:30"]


def test_a_tick_follows_its_boundary_and_not_itself() -> None:
    noon = parse("0 12 * * *")
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert noon.next(at) == at + timedelta(days=1)
    assert noon.next(at - timedelta(microseconds=1)) == at
    assert noon.next(at + timedelta(microseconds=1)) == at + timedelta(days=1)


def test_seconds_are_the_sixth_field() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    found = parse("* * * * * */20").due(at, at + timedelta(minutes=1))
    assert [(tick - at).seconds for tick in found] == [20, 40, 60]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@hourly", "2026-05-01T11:00"),
        ("@daily", "2026-05-02T00:00"),
        ("@midnight", "2026-05-02T00:00"),
        ("@weekly", "2026-05-03T00:00"),
        ("@monthly", "2026-06-01T00:00"),
        ("@yearly", "2027-01-01T00:00"),
        ("@annually", "2027-01-01T00:00"),
    ],
)
def test_names(name: str, expected: str) -> None:
    tick = parse(name).next(datetime(2026, 5, 1, 10, 30, tzinfo=UTC))
    assert f"{tick:%Y-%m-%dT%H:%M}" == expected


def test_an_interval_is_the_same_for_everybody_and_is_written_as_text() -> None:
    schedule = every(timedelta(seconds=90))
    found = list(schedule.due(datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 5, tzinfo=UTC)))
    assert [(tick.minute, tick.second) for tick in found] == [(1, 30), (3, 0), (4, 30)]
    assert schedule.text == "@every 90"
    assert every(timedelta(days=3, microseconds=5)).text == "@every 259200.000005"
    now = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)
    assert parse("@every 259200.000005").next(now) == every(timedelta(days=3, microseconds=5)).next(now)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "0 fields"),
        ("0 1 * * *; 0 2 * * *", "10 fields"),
        ("0 1 * * *|0 2 * * *", "9 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * * *", "7 fields"),
        ("61 * * * *", "out of range"),
        ("a b c d e", "invalid"),
        ("0 25 * * *", "out of range"),
        ("H * * * *", "has a random minute"),
        ("0 R(1-5) * * *", "has a random hour"),
        ("@noon", "is unknown"),
        ("@every", "is unknown"),
        ("@every 5m", "in seconds"),
        ("@every 0", "at least one second"),
        ("@every 999999999999", "eleven digits"),
        ("0 0 31 2 *", "never occurs"),
        ("0 0 30 2 *", "never occurs"),
        ("\x00 * * * *", "invalid"),
        ("*/0 * * * *", "invalid"),
        ("😀 * * * *", "invalid"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse(text)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe", "x" * 5000, "a\x00b"])
def test_a_zone_that_is_none_is_named(zone: str) -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        parse("0 0 * * *", zone)


@pytest.mark.parametrize("interval", [timedelta(0), timedelta(seconds=-5), timedelta(milliseconds=999), 5, None])
def test_an_interval_that_is_none_is_refused(interval: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="every must be"):
        every(interval)


def test_the_rarest_and_the_last_are_found_quickly() -> None:
    begun = time.monotonic()
    assert parse("0 0 29 2 *").next(datetime(2096, 3, 1, tzinfo=UTC)) == datetime(2104, 2, 29, tzinfo=UTC)
    assert parse("0 0 * * *").next(datetime(9999, 12, 31, 23, tzinfo=UTC)) is None
    assert parse("* * * * *").next(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) is None
    assert every(timedelta(days=400)).next(datetime(9999, 12, 31, 23, tzinfo=UTC)) is None
    assert time.monotonic() - begun < 2


EXPRESSIONS = st.sampled_from(
    [
        "30 2 * * *",
        "*/15 * * * *",
        "0 */6 * * *",
        "* * * * *",
        "15 1,2,3 * * 0",
        "0 0 1 * *",
        "45 * * * *",
        "*/7 2 * * *",
    ]
)
ZONES = st.sampled_from([MADRID, NEW_YORK, LORD_HOWE, "UTC", "Asia/Beirut", "Africa/Casablanca", "America/Santiago"])
INSTANTS = st.datetimes(datetime(2020, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC)) | st.builds(
    # Near where clocks change most often.
    lambda month, day, minutes: datetime(2026, month, 1, tzinfo=UTC) + timedelta(days=day, minutes=minutes),
    st.sampled_from([3, 4, 10, 11]),
    st.integers(0, 30),
    st.integers(0, 1440),
)
INTERVALS = st.timedeltas(timedelta(seconds=1), timedelta(days=40)).map(every)
SCHEDULES = st.builds(parse, EXPRESSIONS, ZONES) | INTERVALS


@settings(max_examples=60, deadline=None)
@given(SCHEDULES, INSTANTS, st.floats(0, 1), st.timedeltas(timedelta(0), timedelta(hours=30)))
def test_ticks_rise_and_no_split_loses_or_doubles_one(
    schedule: Schedule, start: datetime, where: float, span: timedelta
) -> None:
    whole = list(schedule.due(start, start + span))
    middle = start + span * where
    assert list(schedule.due(start, middle)) + list(schedule.due(middle, start + span)) == whole
    assert all(one < other for one, other in pairwise([start, *whole]))
    assert schedule.last(start, start + span) == (whole[-1] if whole else None)


@settings(max_examples=20, deadline=None)
@given(ZONES, st.integers(2024, 2033), st.integers(0, 23), st.integers(0, 59))
def test_a_named_time_fires_once_a_day(zone: str, year: int, hour: int, minute: int) -> None:
    assert fires_once_a_day(zone, year, year + 1, f"{minute} {hour} * * *")


FIELDS = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day": (1, 31),
    "month": (1, 12),
    "weekday": (0, 6),
}


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """One field of an expression, in any of its forms."""
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just("*"),
        number.map(str),
        st.lists(number, min_size=1, max_size=4).map(lambda numbers: ",".join(map(str, numbers))),
        spans.map(lambda span: f"{span[0]}-{span[1]}"),
        st.integers(1, high).map(lambda every: f"*/{every}"),
        st.tuples(spans, st.integers(1, high)).map(lambda both: f"{both[0][0]}-{both[0][1]}/{both[1]}"),
    )


FIVE = st.tuples(*(field(*bounds) for bounds in FIELDS.values())).map(" ".join)
ANY = st.one_of(FIVE, st.tuples(FIVE, field(0, 59)).map(" ".join))


@settings(max_examples=60, deadline=None)
@given(ANY, INSTANTS)
def test_any_expression_means_to_a_clock_without_changes_what_it_means_to_croniter(text: str, at: datetime) -> None:
    try:
        schedule = parse(text)
    except ConfigurationError as error:
        assert "never occurs" in str(error)  # noqa: PT017, a day that no month has
        return
    known = croniter(text, at.timestamp() // 1, max_years_between_matches=9)
    for _ in range(5):
        tick = schedule.next(at)
        assert tick == datetime.fromtimestamp(known.get_next(float), UTC)
        at = tick


@settings(max_examples=50, deadline=None)
@given(ANY, ZONES, INSTANTS)
def test_any_expression_in_any_zone_ticks_in_order_and_from_its_boundary(text: str, zone: str, at: datetime) -> None:
    try:
        schedule = parse(text, zone)
    except ConfigurationError:
        return
    earlier = at
    for _ in range(6):
        tick = schedule.next(earlier)
        if tick is None:
            return
        assert tick > earlier
        # From anywhere before it leads to it, and from the very tick to the next.
        assert schedule.next(tick - timedelta(microseconds=1)) == tick
        assert schedule.next(earlier + (tick - earlier) / 2) == tick
        earlier = tick


@settings(max_examples=20, deadline=None)
@given(ZONES, st.sampled_from(["*/15 * * * *", "*/30 * * * *", "0,15,30,45 0-23 * * *"]), INSTANTS)
def test_an_interval_of_a_whole_part_of_every_change_goes_on_in_real_time(zone: str, text: str, at: datetime) -> None:
    """The clocks of these zones change by whole or half hours."""
    found = list(parse(text, zone).due(at, at + timedelta(days=2)))
    assert {later - earlier for earlier, later in pairwise(found)} <= {
        timedelta(minutes=30 if "30 *" in text and "," not in text else 15)
    }


@pytest.mark.parametrize("zone", [MADRID, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("hour", [0, 1, 2, 3])
def test_a_named_time_fires_once_a_day_for_ten_years(zone: str, hour: int) -> None:
    assert fires_once_a_day(zone, 2024, 2034, f"15 {hour} * * *")


def fires_once_a_day(zone: str, year: int, end: int, expression: str) -> bool:
    first = datetime(year, 1, 1, tzinfo=ZoneInfo(zone))
    moment = timedelta(seconds=1)
    found = list(parse(expression, zone).due(first - moment, first.replace(year=end) - moment))
    days = {tick.astimezone(ZoneInfo(zone)).date() for tick in found}
    return len(found) == len(days) == (first.replace(year=end).date() - first.date()).days


def test_a_star_in_a_list_is_all_of_them() -> None:
    assert ticks("*,30 9 * * *", "UTC", "05-01 08:00", "05-01 12:00") == [f"05-01 09:{n:02}" for n in range(60)]
    assert ticks("5 */12,* * * *", "UTC", "05-01 08:00", "05-01 11:00") == ["05-01 08:05", "05-01 09:05", "05-01 10:05"]


def test_the_longest_interval_is_read_back_and_a_longer_one_refused() -> None:
    assert parse(every(MAX_INTERVAL).text).text == every(MAX_INTERVAL).text
    with pytest.raises(ConfigurationError, match="every must be at most"):
        every(MAX_INTERVAL + timedelta(seconds=1))


def test_threads_that_share_the_days_of_an_expression_find_the_right_ones() -> None:
    days, wrong = _Days("* * mon"), []

    def ask(year: int) -> None:
        for number in range(3_000):
            day = date(year, 1, 1) + timedelta(days=number % 200)
            found = days.first(day)
            if found is None or not 0 <= (found - day).days < 7 or found.weekday() != 0:
                wrong.append((day, found))

    threads = [threading.Thread(target=ask, args=(year,)) for year in (2020, 2023, 2026)]
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert wrong == []
