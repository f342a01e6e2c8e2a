"""Arguments of every kind that Steady Queue stores, and the strict equality that they must survive with."""

from __future__ import annotations

import datetime as dt
import http
import math
import re
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Model
from django.utils.safestring import SafeString
from hypothesis import strategies as st

from tests.shop.models import Customer

Arguments = tuple[tuple[object, ...], dict[str, object]]

ZONES = ("UTC", "Europe/Paris", "America/St_Johns", "Asia/Kathmandu", "Pacific/Apia", "Africa/Monrovia", "Etc/GMT+12")


def _texts() -> st.SearchStrategy[str]:
    awkward = ["$", "", "\x00", "\ud800", "\udc00", "\ud83d\ude00", "😀", '"$":', "\\ud83d"]
    return st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(awkward)


def _zones() -> st.SearchStrategy[dt.tzinfo | None]:
    limit = dt.timedelta(days=1) - dt.timedelta(microseconds=1)
    fixed = st.timedeltas(-limit, limit).map(dt.timezone)
    return st.none() | fixed | st.sampled_from(ZONES).map(ZoneInfo)


def _moments() -> st.SearchStrategy[object]:
    dates = st.datetimes() | st.sampled_from([dt.datetime(2024, 10, 27, 2, 30), dt.datetime.min, dt.datetime.max])
    return st.one_of(
        st.builds(
            lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold), dates, _zones(), st.sampled_from([0, 1])
        ),
        st.builds(
            lambda value, zone, fold: value.replace(tzinfo=zone, fold=fold),
            st.times(),
            _zones(),
            st.sampled_from([0, 1]),
        ),
        st.dates(),
        st.timedeltas(),
    )


def _enums() -> st.SearchStrategy[object]:
    members = [http.HTTPStatus.OK, http.HTTPStatus.GONE, *Customer.Tier, re.RegexFlag.ASCII]
    return st.sampled_from(members) | st.sets(st.sampled_from(re.RegexFlag)).map(_union)


def _union(flags: set[re.RegexFlag]) -> re.RegexFlag:
    union = re.RegexFlag(0)
    for flag in flags:
        union |= flag
    return union


def _integers() -> st.SearchStrategy[int]:
    # By their length, because Hypothesis shows a strategy by the values in it.
    return st.integers() | st.sampled_from([639, 640, 4299]).map(lambda zeros: -(10**zeros))


def _hashable() -> st.SearchStrategy[object]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        _integers(),
        st.floats(),
        _texts(),
        _texts().map(SafeString),
        st.binary(max_size=8),
        st.uuids(),
        st.decimals().filter(lambda value: not value.is_snan()),
        _moments(),
        _enums(),
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
        max_leaves=4,
    )


def stored_values() -> st.SearchStrategy[object]:
    """Return a strategy of single values that come back exactly."""
    keys = _hashable()
    return st.recursive(
        keys | st.binary(max_size=8).map(bytearray) | st.sampled_from([Decimal("sNaN"), Decimal("-sNaN12")]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4),
            st.lists(inner, max_size=4).map(tuple),
            st.sets(keys, max_size=4),
            st.dictionaries(_texts(), inner, max_size=4),
            st.dictionaries(keys, inner, max_size=4),
        ),
        max_leaves=10,
    )


def stored_arguments() -> st.SearchStrategy[Arguments]:
    """Return a strategy of positional and named arguments that come back exactly."""
    values = stored_values()
    return st.tuples(
        st.lists(values, max_size=4).map(tuple),
        st.dictionaries(_texts(), values, max_size=4),
    )


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same in type, content, order, sign, zone and fold, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(item, twin) for twin in other) for item in one)
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    if isinstance(one, Decimal):
        return bool(one.as_tuple() == other.as_tuple())
    if isinstance(one, (dt.datetime, dt.time)):
        return _same_moment(one, other)
    if isinstance(one, Model):
        return bool(one == other and one._state.db == other._state.db)
    return bool(one == other)


def _same_moment(one: Any, other: Any) -> bool:
    twins = [
        (moment.replace(tzinfo=None), moment.fold, type(moment.tzinfo), getattr(moment.tzinfo, "key", moment.tzinfo))
        for moment in (one, other)
    ]
    return bool(twins[0] == twins[1])
