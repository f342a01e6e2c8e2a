"""Reading stored arguments and results: unreadable texts, views and return values."""

from __future__ import annotations

import asyncio
import datetime as dt
import http
import json
import re
from collections import deque
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils.safestring import SafeString
from django_tasks.utils import normalize_json
from hypothesis import given
from hypothesis import strategies as st

from steady_queue import arguments
from steady_queue.arguments import (
    DeserializationError,
    aloads,
    dump_result,
    dumps,
    json_text,
    load_result,
    loads,
    view,
    view_text,
)
from tests.arguments.helpers import Name
from tests.shop.models import Customer
from tests.support.arguments import same, stored_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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

    def test_the_view_of_plain_arguments_is_the_arguments(self) -> None:
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
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(ValueError, match="contains itself"):
            dump_result(circle)

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
