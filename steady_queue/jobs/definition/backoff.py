"""How long a task waits before its next attempt: ready-made functions for `backoff`.

A backoff is any function of the exception and the task's result that returns seconds, a timedelta, or None for no
further attempt.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.jobs.definition.durations import is_delay, read_seconds

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

Delay = float | timedelta | None
Backoff = Callable[[BaseException, "TaskResult[Any]"], Delay]


def exponential(first: float = 1, factor: float = 2, longest: float = 3600, jitter: float = 0.1) -> Exponential:
    """Wait `first` seconds, then `factor` times as long with each attempt, at most `longest`.

    A random part, of up to `jitter` times the delay, is added or subtracted, so that tasks that failed together do not
    all come back together.
    """
    _check("exponential", first=first, longest=longest, jitter=jitter)
    if not _is_number(factor) or factor < 1:
        raise ValueError(f"exponential: factor must be a number of at least 1, not {factor!r}")
    if jitter > 1:
        raise ValueError(f"exponential: jitter must be a number between 0 and 1, not {jitter!r}")
    return Exponential(first, factor, longest, jitter)


def fixed(seconds: float) -> Steps:
    """Wait for the same number of seconds before every attempt."""
    _check("fixed", seconds=seconds)
    return Steps((seconds,))


def steps(*seconds: float) -> Steps:
    """Wait for these numbers of seconds, one after another; the last one is repeated."""
    if not seconds:
        raise ValueError("steps: at least one number of seconds is needed")
    _check("steps", **{f"step {number}": value for number, value in enumerate(seconds, 1)})
    return Steps(seconds)


@dataclass(frozen=True, slots=True)
class Exponential:
    """See `exponential`."""

    first: float
    factor: float
    longest: float
    jitter: float

    def __call__(self, exception: BaseException, task_result: TaskResult[Any]) -> float:
        try:
            delay = min(self.longest, self.first * float(self.factor) ** retries_of(task_result))
        except OverflowError:
            delay = self.longest
        delay *= 1 + random.uniform(-self.jitter, self.jitter)  # noqa: S311, it needs no secrecy
        return min(self.longest, delay)


@dataclass(frozen=True, slots=True)
class Steps:
    """See `steps` and `fixed`."""

    seconds: tuple[float, ...]

    def __call__(self, exception: BaseException, task_result: TaskResult[Any]) -> float:
        return self.seconds[min(retries_of(task_result), len(self.seconds) - 1)]


def retries_of(task_result: TaskResult[Any]) -> int:
    """How often the task was retried automatically, before the attempt that has failed now."""
    retries: int = getattr(task_result, "retries", task_result.attempts - 1)
    return max(0, retries)


def _check(name: str, **values: object) -> None:
    for what, value in values.items():
        if not _is_number(value):
            raise ValueError(f"{name}: {what} must be a number of at least 0, not {value!r}")


def _is_number(value: object) -> bool:
    return not isinstance(value, timedelta) and is_delay(read_seconds(value))
