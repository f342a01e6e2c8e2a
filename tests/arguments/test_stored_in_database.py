"""Arguments through a real database and back: exactly what was passed, or refused, the same on all three."""

from __future__ import annotations

import asyncio
import math
import os
from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings

from steady_queue import aenqueue_all, enqueue_all
from steady_queue.arguments import MAX_BYTES, DeserializationError, loads
from steady_queue.arguments.decoding import MAX_DEPTH
from steady_queue.errors import ArgumentError
from steady_queue.jobs.definition.task import TaskCall
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.arguments import same, stored_arguments
from tests.support.databases.aliases import queue_in
from tests.support.databases.tables import count, row
from tests.support.enqueue import put_async, put_sync

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult
    from tests.support.arguments import Arguments
    from tests.support.enqueue import Put

EXAMPLES = int(os.environ.get("STEADY_QUEUE_EXAMPLES", "60"))
OURS = "steady_queue.backend.SteadyQueueBackend"


def read_back(alias: str, id_: str) -> tuple[list[object], dict[str, object]]:
    job = row(alias, "job", id_, column="id")
    assert job is not None
    return loads(job["arguments"])


def came_back(alias: str, result: TaskResult[Any], args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return same(read_back(alias, result.id), (list(args), kwargs))


@pytest.fixture
def loop() -> Any:
    """One event loop for all examples of a test."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.timeout(60 + EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(arguments=stored_arguments())
def test_every_storable_value_comes_back_exactly(database: str, loop: asyncio.Runner, arguments: Arguments) -> None:
    args, kwargs = arguments
    call = TaskCall(tasks.anything, args, kwargs)
    by_django, by_loop = enqueue_all([call])[0], loop.run(aenqueue_all([call]))[0]
    for result in (by_django, by_loop):
        assert came_back(database, result, args, kwargs)
        assert same(tasks.anything.get_result(result.id).args, result.args)


def deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def in_a_circle() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


#: What people and attackers try, and whether it is stored.
HOSTILE: dict[str, tuple[Any, bool]] = {
    "NUL": ("a\x00b", True),
    "nothing but NUL": ("\x00", True),
    "a NUL in a key": ({"\x00": 1}, True),
    "a lone surrogate": ("\ud800", True),
    "a pair of lone surrogates": ("\ud83d\ude00", True),
    "a surrogate in a key": ({"\udfff": 1}, True),
    "text that looks escaped": ("\\u0000 \\ud800 \\\\ %s %% $1 ? :x", True),
    "quotes": ("'; DROP TABLE steady_queue_job; --\"`", True),
    "four bytes": ("😀" * 100, True),
    "noncharacters": ("\ufffe\uffff\U0010ffff", True),
    "not a number": (math.nan, True),
    "infinity": ([math.inf, -math.inf], True),
    "minus zero": (-0.0, True),
    "a huge integer": (10**4000, True),
    "an integer longer than Python prints": (10**100_000, True),
    "64 bits and one": (2**64 + 1, True),
    "a key like a marker": ({"$": "datetime", "v": "2024-01-01"}, True),
    "a marker in a marker": ({"$": {"$": "model", "v": "shop.Customer", "pk": 1}}, True),
    "numbers for keys": ({1: 1, 1.5: 2, None: 3, False: 4}, True),
    "as deep as allowed": (deep(MAX_DEPTH - 2), True),
    "bytes": (bytes(range(256)), True),
    "deeper than allowed": (deep(MAX_DEPTH + 10), False),
    "deeper than the stack": (deep(100_000), False),
    "a circle": (in_a_circle(), False),
    "an object": (object(), False),
    "a function": (print, False),
    "a class": (Customer, False),
    "a generator": (iter([1]), False),
    "an unsaved row": (Customer(name="Ada"), False),
    "an integer beyond the limit": (1 << (4 * MAX_BYTES), False),
    "text beyond the limit": ("x" * (MAX_BYTES + 1), False),
}


@pytest.mark.needs("postgres", "mariadb")
@pytest.mark.parametrize("name", HOSTILE)
def test_the_verdict_is_the_same_on_every_database(name: str) -> None:
    value, is_stored = HOSTILE[name]
    for alias in ("postgres", "mariadb", "sqlite"):
        with queue_in(alias):
            for way in (put_sync, put_async):
                if is_stored:
                    assert came_back(alias, way(tasks.anything, value), (value,), {})
                else:
                    with pytest.raises(ArgumentError, match=r"^tests\.shop\.tasks\.anything\(\): args\[0\]") as caught:
                        way(tasks.anything, value)
                    assert caught.value.stored == "no"
                    assert count(alias, "job") == 0


def test_a_refusal_is_the_type_error_of_the_framework_too(database: str, put: Put) -> None:
    for kind in (TypeError, ValueError):
        with pytest.raises(kind, match=r"kwargs\['b'\]"):
            put(tasks.add, 1, b=object())
    assert count(database, "job") == 0


def test_the_limit_of_the_settings_holds_and_names_the_largest_argument(database: str, put: Put) -> None:
    with override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"max_arguments_bytes": 1000}}}):
        put(tasks.anything, "x" * 900)
        with pytest.raises(ArgumentError, match=r"kwargs\['large'\].*1,000"):
            put(tasks.anything, "x" * 100, large="x" * 990)
    assert count(database, "job") == 1


def test_arguments_just_below_the_limit_are_stored(database: str, put: Put) -> None:
    text = "x" * (MAX_BYTES - 20)
    result = put(tasks.anything, text)
    assert read_back(database, result.id) == ([text], {})


def test_a_row_that_is_gone_cannot_be_restored(database: str, put: Put) -> None:
    ada = Customer.objects.using(database).create(name="Ada")
    result = put(tasks.anything, {"customer": [ada]})
    assert read_back(database, result.id) == ([{"customer": [ada]}], {})
    ada.delete()
    with pytest.raises(DeserializationError, match="Customer"):
        read_back(database, result.id)
