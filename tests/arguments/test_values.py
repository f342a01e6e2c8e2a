"""Argument values that are stored and come back exactly."""

from __future__ import annotations

import datetime as dt
import http
import io
import json
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils.safestring import SafeString
from django_tasks.utils import normalize_json
from hypothesis import example, given, settings

from steady_queue.arguments import (
    DeserializationError,
    dumps,
    loads,
    view,
    view_text,
)
from tests.arguments.helpers import Zone, assert_comes_back, back, refusal, thorough
from tests.shop.models import Customer
from tests.support.arguments import Arguments, same, stored_arguments, stored_values


class TestAnyStorableArguments:
    @thorough
    @given(stored_arguments())
    @example(((), {"$": 1}))
    @example((({"$": "uuid", "v": "x"}, {1: "a", "1": "b"}, {(): -0.0}), {"self": float("nan"), "\ud83d\ude00": 1}))
    def test_come_back_exactly_from_ascii_json_without_nul(self, given: Arguments) -> None:
        text = dumps(*given)
        args, kwargs = loads(text)
        assert same(tuple(args), given[0])
        assert same(kwargs, given[1])
        assert text.isascii()
        assert "\x00" not in text
        json.loads(text, parse_constant=pytest.fail, parse_int=str)

    @settings(thorough, max_examples=150)
    @given(stored_arguments())
    def test_look_the_same_before_and_after_they_are_stored(self, given: Arguments) -> None:
        seen = view(*given)
        assert same(seen, view_text(dumps(*given)))
        assert same(seen, view(*seen))
        assert same(list(seen), normalize_json(list(seen)))

    @settings(thorough, max_examples=150)
    @given(stored_values())
    def test_are_stored_alike_alone_and_next_to_a_value_that_needs_a_marker(self, value: object) -> None:
        alone, _ = loads(dumps((value,), {}))
        with_marker, _ = loads(dumps((value, ()), {}))
        assert same(alone[0], with_marker[0])


class TestPlainValues:
    def test_are_stored_as_ordinary_json_in_a_versioned_envelope(self) -> None:
        assert dumps((42, "é"), {"x": [1.5, None, True]}) == '[1,[42,"\\u00e9"],{"x":[1.5,null,true]}]'

    def test_a_list_and_any_mapping_may_carry_the_arguments(self) -> None:
        class Named(Mapping[str, object]):
            def __getitem__(self, key: str) -> object:
                return {"a": 1}[key]

            def __iter__(self) -> Iterator[str]:
                return iter(["a"])

            def __len__(self) -> int:
                return 1

        assert loads(dumps(deque([1]), Named())) == ([1], {"a": 1})
        assert view(deque([1]), Named()) == ([1], {"a": 1})

    @pytest.mark.parametrize("number", [0.0, -0.0, 5e-324, 1e308, float("inf"), float("-inf"), float("nan"), 1.0])
    def test_floats_keep_their_sign_and_kind(self, number: float) -> None:
        assert_comes_back(number)
        assert_comes_back({number: number})

    @pytest.mark.parametrize("digits", [1, 18, 19, 20, 640, 641, 4300, 4301, 50_000])
    def test_integers_of_any_size_come_back(self, digits: int) -> None:
        assert_comes_back([10 ** (digits - 1), -(10**digits) + 1])

    def test_an_integer_written_under_a_higher_digit_limit_is_read_under_a_lower_one(self) -> None:
        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            text = dumps((10**20_000,), {})
        finally:
            sys.set_int_max_str_digits(limit)
        assert loads(text) == ([10**20_000], {})

    def test_an_absurdly_long_integer_in_a_text_is_refused_without_being_converted(self) -> None:
        with pytest.raises(DeserializationError, match="digits"):
            loads(f"[1,[{'9' * 1_000_000}],{{}}]")

    def test_true_is_not_one(self) -> None:
        assert_comes_back([True, 1, 1.0, False, 0, None])

    @pytest.mark.parametrize(
        "text", ["\x00", "a\x00b", "\ud800", "\udfff\ud800", "\ud83d" + "\ude00", "😀", "\\ud83d\\ude00", '"']
    )
    def test_strings_keep_nul_and_surrogates_in_values_and_keys(self, text: str) -> None:
        assert_comes_back(text)
        assert_comes_back({text: [text]})
        assert_comes_back(SafeString(text))
        assert loads(dumps((), {text: 1})) == ([], {text: 1})


class TestDicts:
    def test_a_dict_with_integer_keys_comes_back_with_integer_keys(self) -> None:
        assert_comes_back({1: "a", "1": "b", 2.5: "c", None: "d", False: "e"})

    def test_keys_of_every_hashable_kind_survive(self) -> None:
        assert_comes_back({(1, "x"): 1, Customer.Tier.GOLD: 2, UUID(int=5): 3, dt.date(2024, 1, 1): 4, b"k": 5})
        assert_comes_back({frozenset({1}): 1, Decimal("1.10"): 2, http.HTTPStatus.OK: 3})

    def test_insertion_order_is_kept(self) -> None:
        assert list(back({"b": 1, "a": 2})) == ["b", "a"]
        assert list(back({3: 1, 1: 2, "$": 3})) == [3, 1, "$"]

    @pytest.mark.parametrize(
        "mimic",
        [{"$": "datetime", "v": "2024-01-01"}, {"$": None}, {"v": 1, "$": {"$": []}}, {"$": "enum", "v": "os:system"}],
    )
    def test_a_dict_that_looks_like_a_marker_stays_a_dict(self, mimic: dict[str, object]) -> None:
        assert_comes_back(mimic)
        assert_comes_back([mimic, {"deep": (mimic,)}])
        assert loads(dumps((), mimic)) == ([], mimic)

    def test_two_nan_keys_stay_two_keys(self) -> None:
        assert len(back({float("nan"): 1, float("nan"): 2})) == 2


class TestMoments:
    def test_a_zone_keeps_its_name_and_the_second_of_two_equal_hours(self) -> None:
        paris = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris"))
        result = back(paris)
        assert same(result, paris)
        assert result.tzinfo.key == "Europe/Paris"
        assert result.utcoffset() == dt.timedelta(hours=1)

    @pytest.mark.parametrize(
        "offset",
        [
            dt.timedelta(),
            dt.timedelta(hours=-3, minutes=-30),
            dt.timedelta(seconds=1),
            dt.timedelta(microseconds=-1),
            dt.timedelta(hours=23, minutes=59, seconds=59, microseconds=999999),
        ],
    )
    def test_a_fixed_offset_is_kept_to_the_microsecond(self, offset: dt.timedelta) -> None:
        zone = dt.timezone(offset)
        assert_comes_back(dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=zone))
        assert_comes_back(dt.time(3, 4, 5, 6, tzinfo=zone, fold=1))

    def test_another_kind_of_zone_becomes_a_fixed_offset_at_the_same_instant(self) -> None:
        value = dt.datetime(2024, 1, 1, 12, tzinfo=Zone(lambda: dt.timedelta(hours=2)))
        result = back(value)
        assert result == value
        assert result.tzinfo == dt.timezone(dt.timedelta(hours=2))

    def test_a_zone_under_a_false_name_becomes_a_fixed_offset(self) -> None:
        with open_zone("Asia/Kathmandu") as file:
            forged = ZoneInfo.from_file(file, key="UTC")
        value = dt.datetime(2024, 1, 1, tzinfo=forged)
        assert back(value) == value
        assert back(value).tzinfo == dt.timezone(dt.timedelta(hours=5, minutes=45))

    def test_a_zone_without_an_offset_or_with_broken_code_is_refused(self) -> None:
        def broken() -> dt.timedelta:
            raise KeyError

        assert "has no UTC offset" in refusal(dt.datetime(2024, 1, 1, tzinfo=Zone(lambda: None)))
        assert "KeyError" in refusal(dt.datetime(2024, 1, 1, tzinfo=Zone(broken)))

    @pytest.mark.parametrize(
        "value",
        [
            dt.datetime.min,
            dt.datetime.max,
            dt.datetime(2024, 1, 1, fold=1),
            dt.date.max,
            dt.time(1, 2, fold=1),
            dt.time(1, 2, tzinfo=ZoneInfo("Europe/Paris")),
            dt.time(1, 2, tzinfo=ZoneInfo("UTC")),
            dt.timedelta.min,
            dt.timedelta.max,
            dt.timedelta(microseconds=-1),
            dt.datetime.max.replace(tzinfo=ZoneInfo("Asia/Kathmandu")),
            dt.datetime.min.replace(tzinfo=ZoneInfo("Asia/Kathmandu")),
        ],
    )
    def test_dates_times_and_durations_come_back(self, value: object) -> None:
        assert_comes_back(value)


def open_zone(key: str) -> io.BytesIO:
    from importlib.resources import files

    return io.BytesIO(files("tzdata").joinpath("zoneinfo", *key.split("/")).read_bytes())


class TestOtherTypes:
    @pytest.mark.parametrize(
        "text", ["0", "-0", "1.10", "1E+999", "-1E-999", "NaN", "-NaN", "sNaN", "sNaN7", "Infinity"]
    )
    def test_decimals_keep_every_digit_and_sign(self, text: str) -> None:
        assert_comes_back(Decimal(text))

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"\x00\xff",
            bytearray(b"\x80"),
            UUID(int=2**128 - 1),
            (),
            ((),),
            set(),
            frozenset({(1,)}),
            {1, "1", None},
        ],
    )
    def test_binary_identifiers_tuples_and_sets_come_back(self, value: object) -> None:
        assert_comes_back(value)

    def test_a_safe_string_stays_safe_and_a_plain_one_plain(self) -> None:
        assert_comes_back([SafeString("<b>"), "<b>"])

    def test_the_same_set_always_has_the_same_text(self) -> None:
        grown = {1024, 0}
        assert list(grown) != list({0, 1024}), (
            "sets of one content must differ in order for this test to mean something"
        )
        assert dumps((grown,), {}) == dumps(({0, 1024},), {})
