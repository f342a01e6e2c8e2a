"""Argument values that are refused when a task is enqueued."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections import OrderedDict, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from django.core.files.base import ContentFile
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy
from hypothesis import given, settings
from hypothesis import strategies as st

from steady_queue import arguments
from steady_queue.arguments import (
    DeserializationError,
    SerializationError,
    dumps,
    loads,
)
from steady_queue.errors import ArgumentError
from tests.arguments.helpers import Name, Point, assert_comes_back, nested, refusal
from tests.shop.models import Customer
from tests.support.arguments import same

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        circle: dict[str, Any] = {}
        circle["self"] = ([circle],)
        for value in (chain, bush, circle):
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

    def test_is_four_mebibytes_by_default(self) -> None:
        assert arguments.MAX_BYTES == 4 * 1024 * 1024
        assert "limit of 4,194,304" in refusal("x" * arguments.MAX_BYTES)
        assert "limit of 4,194,304" in refusal(b"x" * arguments.MAX_BYTES)

    def test_holds_even_when_there_are_no_arguments(self) -> None:
        with pytest.raises(ArgumentError, match="limit of 1"):
            dumps((), {}, limit=1)
