"""Values, and checks of what comes back, for the tests of arguments."""

from __future__ import annotations

import datetime as dt
import enum
import os
from collections import namedtuple
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from steady_queue.arguments import dumps, loads
from steady_queue.errors import ArgumentError
from tests.support.arguments import same

if TYPE_CHECKING:
    from collections.abc import Callable

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
