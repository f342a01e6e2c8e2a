from __future__ import annotations

import asyncio
import datetime as dt
import enum
import http
import io
import json
import os
import re
import socket
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.core.files.base import ContentFile
from django.utils.functional import SimpleLazyObject
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy
from django_tasks.utils import normalize_json
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from steady_queue import arguments
from steady_queue.arguments import (
    DeserializationError,
    SerializationError,
    aloads,
    dump_result,
    dumps,
    json_text,
    load_result,
    loads,
    view,
    view_text,
)
from steady_queue.errors import ArgumentError
from tests.shop.models import Customer
from tests.support.arguments import Arguments, same, stored_arguments, stored_values

if TYPE_CHECKING:
    from pathlib import Path

thorough = settings(
    max_examples=500,
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)


class Shade(enum.Enum):
    DARK = "dark"


class Name(str):
    pass


class Zone(dt.tzinfo):
    def __init__(self, offset: Callable[[], dt.timedelta | None]) -> None:
        self.offset = offset

    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta | None:
        return self.offset()

    def dst(self, _: dt.datetime | None) -> None:
        return None

    def tzname(self, _: dt.datetime | None) -> None:
        return None


Point = namedtuple("Point", "x y")


def back(value: object) -> Any:
    (result,), named = loads(dumps((value,), {}))
    assert named == {}
    return result


def assert_comes_back(value: object) -> None:
    assert same(back(value), value), (back(value), value)


def refusal(value: object, *more: object, **named: object) -> str:
    with pytest.raises(ArgumentError) as caught:
        dumps((value, *more), named)
    return str(caught.value)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


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
    def test_are_stored_alike_on_their_own_and_beside_a_value_that_needs_a_marker(self, value: object) -> None:
        alone, _ = loads(dumps((value,), {}))
        beside, _ = loads(dumps((value, ()), {}))
        assert same(alone[0], beside[0])


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


class TestEnums:
    @pytest.mark.parametrize(
        "member",
        [http.HTTPStatus.OK, Customer.Tier.GOLD, socket.AF_INET, re.RegexFlag.ASCII, re.A | re.I, re.RegexFlag(0)],
    )
    def test_members_and_flags_of_apps_and_the_standard_library_come_back(self, member: enum.Enum) -> None:
        assert back(member) is member

    def test_the_member_of_a_class_outside_every_app_is_refused_in_favour_of_its_value(self) -> None:
        assert refusal({"shade": Shade.DARK}).startswith("args[0]['shade']: a Shade cannot be stored")
        assert ".value" in refusal(Shade.DARK)

    def test_a_class_that_cannot_be_found_by_its_name_is_refused(self) -> None:
        class Double(enum.Enum):
            OK = 200

        assert ".value" in refusal(Double.OK)
        Double.__module__, Double.__qualname__ = "http", "HTTPStatus"
        assert ".value" in refusal(Double.OK)

    @pytest.mark.parametrize(
        "path",
        [
            "os:system",
            "os.path:join",
            "tests.arguments.test_values:Shade",
            "tests.shop.models:Customer",
            "tests.shop.models:Customer.Tier.GOLD",
            "tests.shop.models:Customer.objects.model",
            "tests.shop.gone:Tier",
            "tests.shop.models:Gone",
            "http:",
            ":",
            "",
            None,
            [],
        ],
    )
    def test_a_text_naming_anything_but_a_known_enum_class_is_refused(self, path: object) -> None:
        text = json.dumps([1, [{"$": "enum", "v": path, "name": "GOLD"}], {}])
        with pytest.raises(DeserializationError):
            loads(text)

    @pytest.mark.parametrize("module", ["antigravity", "this", "unittest.__main__", "tests.shop.__main__", "os.path"])
    def test_a_text_cannot_run_a_module_that_acts_when_it_is_imported(self, module: str) -> None:
        with pytest.raises(DeserializationError, match="neither in an installed app nor in the standard library"):
            loads(json.dumps([1, [{"$": "enum", "v": f"{module}:X", "name": "Y"}], {}]))

    def test_a_text_cannot_import_a_module_that_belongs_to_no_app(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "stranger.py").write_text("import enum\nclass Mood(enum.Enum):\n    GOOD = 1\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(DeserializationError, match="stranger"):
            loads('[1,[{"$":"enum","v":"stranger:Mood","name":"GOOD"}],{}]')
        assert "stranger" not in sys.modules

    def test_an_app_module_that_ends_the_process_when_imported_does_not_end_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import tests.shop

        (tmp_path / "leaver.py").write_text("raise SystemExit\n")
        monkeypatch.setattr(tests.shop, "__path__", [str(tmp_path)])
        with pytest.raises(DeserializationError, match="exit the process"):
            loads('[1,[{"$":"enum","v":"tests.shop.leaver:Mood","name":"GOOD"}],{}]')

    def test_a_member_that_is_gone_is_named(self) -> None:
        with pytest.raises(DeserializationError, match=r"'tests\.shop\.models:Customer\.Tier' has no member 'LOST'"):
            loads('[1,[{"$":"enum","v":"tests.shop.models:Customer.Tier","name":"LOST"}],{}]')

    def test_only_a_flag_is_restored_by_value(self) -> None:
        with pytest.raises(DeserializationError, match="has no member 200"):
            loads('[1,[{"$":"enum","v":"http:HTTPStatus","value":200}],{}]')


class TestRefusals:
    @pytest.mark.parametrize(
        ("value", "advice"),
        [
            (gettext_lazy("hello"), "pass str(value)"),
            (SimpleLazyObject(lambda: 1), "pass the object that it stands for"),
            (Customer.objects.all(), "pass a list of primary keys"),
            (ValueError("x"), "pass str(error)"),
            (io.StringIO(), "pass its name or its content"),
            (ContentFile("x"), "pass its name or its content"),
            (len, "pass its dotted name"),
            (refusal, "pass its dotted name"),
            (Customer, "pass its dotted name"),
            (Name("x"), "pass a plain str"),
            (type("Count", (int,), {})(1), "pass a plain int"),
            (type("Ratio", (float,), {})(1), "pass a plain float"),
            (OrderedDict(), "pass a plain dict"),
            (defaultdict(list), "pass a plain dict"),
            (type("Items", (list,), {})(), "pass a plain list"),
            (Point(1, 2), "pass a plain tuple"),
            (type("Stamp", (dt.datetime,), {})(2024, 1, 1), "pass a plain datetime"),
            ((n for n in [1]), "pass list(value)"),
            (map(str, ()), "pass list(value)"),
            (object(), "pass plain data"),
            (Fraction(1, 3), "pass plain data"),
            (range(3), "pass plain data"),
            (memoryview(b""), "pass plain data"),
            (re.compile("x"), "pass plain data"),
            (..., "pass plain data"),
        ],
        ids=lambda value: value if isinstance(value, str) else type(value).__name__,
    )
    def test_name_the_type_and_say_what_to_pass_instead(self, value: object, advice: str) -> None:
        message = refusal(value)
        assert message.startswith("args[0]: ")
        assert type(value).__name__ in message
        assert message.endswith(advice) or advice in message

    def test_name_the_argument_and_the_way_to_the_value(self) -> None:
        assert refusal({"items": [1, 2, 3, (n for n in [1])]}) == (
            "args[0]['items'][3]: a generator cannot be stored; pass list(value)"
        )
        assert refusal(1, when=Name("x")).startswith("kwargs['when']: a Name")
        assert refusal(1, ({5: object()},)).startswith("args[1][0][5]: an object")
        assert refusal({Name("x"): 1}).startswith("args[0] (a key): a Name")
        assert refusal({(1, 2): {Name("x")}}).startswith("args[0][<tuple>] (an item): a Name")
        assert refusal({"k" * 5000: object()}).startswith("args[0]['kkk")
        assert len(refusal({"k" * 5000: object()})) < 300

    def test_are_errors_of_value_and_of_type_and_have_the_old_name_too(self) -> None:
        assert SerializationError is ArgumentError
        assert issubclass(ArgumentError, ValueError)
        assert issubclass(ArgumentError, TypeError)
        assert issubclass(DeserializationError, ValueError)

    def test_a_named_argument_must_be_named_by_a_str(self) -> None:
        for name in (1, None, Name("x"), Customer.Tier.GOLD):
            with pytest.raises(ArgumentError, match="name of an argument"):
                dumps((), {name: 1})  # type: ignore[dict-item]


class TestHostileValues:
    def test_values_that_contain_themselves_are_refused(self) -> None:
        chain: list[Any] = []
        chain.append(chain)
        bush: list[Any] = []
        bush.extend([bush, bush])
        ring: dict[str, Any] = {}
        ring["self"] = ([ring],)
        for value in (chain, bush, ring):
            assert "contains itself" in refusal(value)

    def test_a_hundred_levels_are_stored_and_one_more_is_not(self) -> None:
        assert_comes_back(nested(99))
        assert_comes_back((nested(98),))
        assert "deeper than 100 levels" in refusal(nested(100))
        assert "deeper than 100 levels" in refusal((nested(99),))
        assert "deeper" in refusal(nested(100_000))
        assert len(refusal(nested(100_000))) < 200

    def test_dicts_with_other_keys_may_be_as_deep(self) -> None:
        value: dict[int, Any] = {}
        for _ in range(98):
            value = {1: value}
        assert_comes_back(value)
        assert "deeper than 100 levels" in refusal({1: value})

    def test_shared_values_that_unfold_without_end_are_refused_soon(self) -> None:
        listed: Any = [1]
        paired: Any = (1,)
        for _ in range(60):
            listed = [listed, listed]
            paired = (paired, paired)
        for value in (listed, paired):
            with pytest.raises(ArgumentError, match="too many values for the limit of 50,000 bytes"):
                dumps((value,), {}, limit=50_000)

    def test_no_code_of_a_value_runs_and_nothing_but_an_argument_error_is_raised(self) -> None:
        def explode(*_: object) -> Any:
            raise ZeroDivisionError

        class Meta(type):
            __hash__ = explode
            __name__ = property(explode)
            __instancecheck__ = explode

        hooks = ("__repr__", "__str__", "__getattribute__", "__hash__", "__eq__", "__len__", "__iter__", "__bool__")
        body: dict[str, Any] = dict.fromkeys(hooks, explode)
        body["__class__"] = property(explode)
        for base in (object, int, str, dict, list, tuple, dt.tzinfo):
            assert refusal(type("Trap", (base,), body)()).startswith("args[0]: a Trap")
            assert refusal([Meta("Trap", (base,), body)()]).startswith("args[0][0]: ")

    def test_a_type_that_pretends_to_be_str_is_refused(self) -> None:
        class Pretender(type):
            def __hash__(cls) -> int:
                return hash(str)

            def __eq__(cls, other: object) -> bool:
                return True

        assert "args" in refusal(Pretender("str", (), {})())

    def test_mappings_and_sequences_that_fail_are_argument_errors(self) -> None:
        class Broken(dict[str, object]):
            def keys(self) -> Any:
                raise OSError

            def __iter__(self) -> Iterator[str]:
                raise OSError

        with pytest.raises(ArgumentError):
            dumps((), Broken(a=1))
        with pytest.raises(ArgumentError):
            dumps(Broken(a=1), {})  # type: ignore[arg-type]

    @settings(max_examples=50, deadline=None)
    @given(st.data())
    def test_random_objects_of_the_standard_library_are_stored_exactly_or_refused(self, data: st.DataObject) -> None:
        value = data.draw(st.from_type(object).filter(lambda value: not isinstance(value, type)))
        try:
            text = dumps((value,), {})
        except ArgumentError:
            return
        assert same(loads(text)[0][0], value)


class TestTheSizeLimit:
    def test_names_the_largest_argument_and_both_sizes(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            dumps((1, "small"), {"blob": "x" * 500, "tag": "y"}, limit=100)
        assert str(caught.value) == (
            "kwargs['blob']: the arguments take 537 bytes, more than the limit of 100; this one alone takes 502"
        )

    def test_is_exact(self) -> None:
        text = dumps(("x",), {})
        assert dumps(("x",), {}, limit=len(text)) == text
        with pytest.raises(ArgumentError, match="limit of 11;"):
            dumps(("x",), {}, limit=len(text) - 1)

    def test_is_four_mebibytes_unless_told_otherwise(self) -> None:
        assert arguments.MAX_BYTES == 4 * 1024 * 1024
        assert "limit of 4,194,304" in refusal("x" * arguments.MAX_BYTES)
        assert "limit of 4,194,304" in refusal(b"x" * arguments.MAX_BYTES)

    def test_holds_even_when_there_are_no_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="limit of 1"):
            dumps((), {}, limit=1)


class TestUnreadableTexts:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "null",
            "{}",
            "[]",
            "[1]",
            "[1,[]]",
            "[1,{},[]]",
            "[1,[],{},0]",
            "[1,[],{}] ",
            "[1,[],{}]x",
            "[1,[NaN],{}]",
            "[1,[Infinity],{}]",
            f"[1,[{'9' * 5000},NaN],{{}}]",
            "[1,[",
            "[" * 100_000,
            '[1,["\x00"],{}]',
            '[1,[{"$":1}],{}]',
            '[1,[{"$":["int"],"v":"0x1"}],{}]',
            '[1,[{"$":"uuid"}],{}]',
            '[1,[{"$":"uuid","v":"x"}],{}]',
            '[1,[{"$":"int","v":"zz"}],{}]',
            '[1,[{"$":"bytes","v":"*"}],{}]',
            '[1,[{"$":"datetime","v":"2024-01-01","zone":"Mars/Base"}],{}]',
            '[1,[{"$":"datetime","v":"2024-01-01","zone":"../../etc/passwd"}],{}]',
            '[1,[{"$":"datetime","v":5}],{}]',
            '[1,[{"$":"timedelta","v":[1e300]}],{}]',
            '[1,[{"$":"set","v":[[]]}],{}]',
            '[1,[{"$":"dict","v":[[[],1]]}],{}]',
            '[1,[{"$":"dict","v":[["a",1],["a",2]]}],{}]',
            '[1,[{"$":"dict","v":5}],{}]',
            '[1,[{"$":"model","v":"shop.Gone","pk":1,"db":"default"}],{}]',
            '[1,[{"$":"model","v":"nonsense","pk":1,"db":"default"}],{}]',
            '[1,[{"$":"model","v":"shop.Customer","pk":1,"db":"no such alias"}],{}]',
            '[1,[],{"$":"tuple","v":[]}]',
            '[1,[],{"$":"dict","v":[[1,2]]}]',
            None,
            b"[1,[],{}]",
            5,
        ],
        ids=lambda text: repr(text)[:60],
    )
    def test_are_deserialization_errors_and_nothing_else(self, text: Any) -> None:
        with pytest.raises(DeserializationError):
            loads(text)
        with pytest.raises(DeserializationError):
            asyncio.run(aloads(text))

    def test_an_unknown_marker_and_an_unknown_version_are_named(self) -> None:
        with pytest.raises(DeserializationError, match="'pickle'"):
            loads('[1,[{"$":"pickle","v":"gASVAA=="}],{}]')
        with pytest.raises(DeserializationError, match="version 2"):
            loads("[2,[],{}]")
        with pytest.raises(DeserializationError):
            view_text('[1,[{"$":"pickle","v":"gASVAA=="}],{}]')

    def test_a_deeply_nested_marker_is_refused(self) -> None:
        text = '{"$":"tuple","v":[' * 20_000 + "]}" * 20_000
        with pytest.raises(DeserializationError):
            loads(f"[1,[{text}],{{}}]")

    @given(st.text() | stored_arguments().map(lambda given: dumps(*given)), st.integers(0, 200), st.text(max_size=3))
    def test_damaged_texts_are_read_or_refused_but_never_break(self, text: str, at: int, junk: str) -> None:
        damaged = text[:at] + junk + text[at + 1 :]
        for reader in (loads, view_text, load_result):
            try:
                reader(damaged)
            except DeserializationError:
                continue


class TestReadingInAnEventLoop:
    def test_happens_inline_when_no_model_is_mentioned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(arguments, "sync_to_async", pytest.fail)
        given = (1, dt.date(2024, 1, 1), Customer.Tier.GOLD)
        assert asyncio.run(aloads(dumps(given, {"x": "model"[:4]}))) == (list(given), {"x": "mode"})


class TestTheView:
    @pytest.mark.parametrize(
        ("value", "seen"),
        [
            ("text", "text"),
            (SafeString("<b>"), "<b>"),
            (dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC), "2024-01-02T03:00:00+00:00"),
            (dt.datetime(2024, 7, 2, 3, tzinfo=ZoneInfo("Europe/Paris")), "2024-07-02T03:00:00+02:00"),
            (dt.date(2024, 1, 2), "2024-01-02"),
            (dt.time(3, 4), "03:04:00"),
            (dt.timedelta(hours=1), "P0DT01H00M00S"),
            (Decimal("1.10"), "1.10"),
            (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
            (Customer.Tier.GOLD, "gold"),
            (http.HTTPStatus.OK, 200),
            (re.A | re.I, int(re.A | re.I)),
            (b"plain", "plain"),
            (b"\xff\xfe", "//4="),
            ((1, (2,)), [1, [2]]),
            ({10, 9, 1}, [1, 9, 10]),
            ({1: "a", None: "b", (1, 2): "c"}, {"1": "a", "None": "b", "[1, 2]": "c"}),
            ({"$": 1}, {"$": 1}),
            (10**5000, 10**5000),
        ],
        ids=lambda value: "number" if isinstance(value, int) else "set" if isinstance(value, set) else repr(value)[:40],
    )
    def test_shows_each_type_as_json(self, value: object, seen: object) -> None:
        assert same(view((value,), {"x": value}), ([seen], {"x": seen}))
        assert same(view_text(dumps((value,), {"x": value})), ([seen], {"x": seen}))

    def test_the_picture_of_plain_arguments_is_the_arguments(self) -> None:
        inner = [1]
        args, kwargs = view((inner,), {"x": inner})
        assert args[0] is inner
        assert kwargs["x"] is inner

    def test_an_enum_whose_class_is_gone_is_shown_by_its_path(self) -> None:
        text = '[1,[{"$":"enum","v":"tests.shop.models:Gone","name":"GOLD"}],{}]'
        assert view_text(text) == (["tests.shop.models:Gone.GOLD"], {})

    def test_a_model_reference_is_shown_without_the_database(self) -> None:
        text = '[1,[{"$":"model","v":"shop.Customer","pk":7,"db":"no such alias"}],{}]'
        assert view_text(text) == (["shop.Customer:7"], {})


def json_like() -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    leaves = scalars | st.text().map(SafeString) | st.text().map(str.encode) | st.sampled_from(http.HTTPStatus)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner), st.lists(inner).map(tuple), st.lists(inner).map(deque), st.dictionaries(scalars, inner)
        ),
        max_leaves=10,
    )


class TestResults:
    @given(json_like())
    def test_are_what_djangos_own_normalisation_and_json_make_of_them(self, value: Any) -> None:
        expected = json.loads(json.dumps(normalize_json(value)))
        text = dump_result(value)
        assert same(load_result(text), expected)
        assert text.isascii()

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (None, "null"),
            ((1, (2,)), "[1,[2]]"),
            ({"$": b"\xc3\xa9"}, '{"$":"\\u00e9"}'),
            (Name("x"), '"x"'),
            (True, "true"),
        ],
    )
    def test_become_plain_json(self, value: object, text: str) -> None:
        assert dump_result(value) == text

    @pytest.mark.parametrize(
        "value", [object(), {1, 2}, dt.date(2024, 1, 1), [Decimal(1)], {"x": iter(())}, {(1,): 2}, len]
    )
    def test_of_another_type_are_type_errors(self, value: object) -> None:
        with pytest.raises(TypeError, match="cannot return"):
            dump_result(value)

    @pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"x": (float("-inf"),)}])
    def test_that_are_no_json_number_are_refused_by_name(self, value: object) -> None:
        with pytest.raises(ValueError, match=r"cannot return -?(nan|inf): JSON has no such number"):
            dump_result(value)

    def test_in_bytes_that_are_no_text_are_value_errors(self) -> None:
        with pytest.raises(ValueError):
            dump_result([b"\xff"])

    def test_that_contain_themselves_are_value_errors(self) -> None:
        ring: list[Any] = []
        ring.append(ring)
        with pytest.raises(ValueError, match="contains itself"):
            dump_result(ring)

    def test_whose_own_code_fails_are_value_errors(self) -> None:
        class Broken(deque[int]):
            def __iter__(self) -> Iterator[int]:
                raise OSError

        with pytest.raises(ValueError, match="reading it raised OSError"):
            dump_result([Broken()])

    @pytest.mark.parametrize("text", ["", "x", "1 2", "NaN", "[" * 100_000, None])
    def test_that_cannot_be_read_are_deserialization_errors(self, text: Any) -> None:
        with pytest.raises(DeserializationError):
            load_result(text)


def test_the_encoder_falls_back_to_the_public_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fast: Callable[[object], str] = json_text._make_encoder()
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    assert json_text._make_encoder()([1, {"é": None}]) == fast([1, {"é": None}]) == '[1,{"\\u00e9":null}]'
