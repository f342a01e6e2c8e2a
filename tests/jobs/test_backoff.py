"""The ready-made delays, and options of retries that are refused at decoration."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from steady_queue import exponential, fixed, steps, task
from steady_queue.jobs.compat import InvalidTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.jobs.definition.backoff import Backoff


def delays(backoff: Backoff, count: int) -> list[Any]:
    results = (SimpleNamespace(retries=number, attempts=number + 1) for number in range(count))
    return [backoff(ValueError(), cast("Any", result)) for result in results]


def test_fixed_and_steps_wait_as_they_say() -> None:
    assert delays(fixed(5), 3) == [5, 5, 5]
    assert delays(steps(1, 5, 30), 5) == [1, 5, 30, 30, 30]


def test_r8_an_exponential_delay_doubles_up_to_the_longest() -> None:
    assert delays(exponential(jitter=0), 4) == [1, 2, 4, 8]
    assert delays(exponential(first=2, longest=5, jitter=0), 4) == [2, 4, 5, 5]
    assert delays(exponential(longest=43_200, jitter=0), 100_000)[-1] == 43_200


def test_t2_a_jitter_changes_a_delay_and_never_exceeds_the_longest() -> None:
    found = [delays(exponential(first=10, longest=12, jitter=0.5), 1)[0] for _ in range(200)]
    assert len(set(found)) > 100
    assert all(5 <= delay <= 12 for delay in found)


@pytest.mark.parametrize(
    "build",
    [
        lambda: fixed(-1),
        lambda: fixed(math.inf),
        lambda: steps(),
        lambda: steps(1, math.nan),
        lambda: exponential(factor=0.5),
        lambda: exponential(jitter=2),
        lambda: exponential(first=cast("Any", "1")),
    ],
)
def test_a_delay_that_makes_no_sense_is_refused(build: Callable[[], Backoff]) -> None:
    with pytest.raises(ValueError, match=r"^(fixed|steps|exponential): "):
        build()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 2.5),
        ("max_attempts", True),
        ("backoff", 5),
        ("backoff", ValueError),
        ("retry_on", "ValueError"),
        ("give_up_on", (ValueError, 3)),
        ("retry_lost", "yes"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_with_its_name(name: str, value: Any) -> None:
    options: dict[str, Any] = {"max_attempts": 3, name: value}

    def work() -> None: ...

    work.__qualname__ = "work"
    with pytest.raises(InvalidTask, match=rf"work: {name} must "):
        cast("Any", task)(**options)(work)


def test_an_option_without_effect_is_refused_unless_it_is_a_call_that_has_one_attempt() -> None:
    def work() -> None: ...

    work.__qualname__ = "work"
    with pytest.raises(InvalidTask, match="backoff has no effect while max_attempts is 1"):
        task(backoff=fixed(5))(work)
    assert task(backoff=fixed(5), max_attempts=3)(work).using(max_attempts=1).max_attempts == 1
