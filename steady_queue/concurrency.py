"""Concurrency limits: at most `to` tasks with the same key are ready or running at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import steady_queue
from steady_queue.errors import ConcurrencyKeyError, ConfigurationError
from steady_queue.jobs.definition.key_text import compute_key
from steady_queue.store.job import OnConflict
from steady_queue.store.names import KEY_LENGTH, LONGEST_TIMEDELTA, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from steady_queue.jobs.definition.task import SteadyQueueTask

P = ParamSpec("P")
T = TypeVar("T")

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """The concurrency limit of a task."""

    key: str | Callable[..., Any]
    to: int
    duration: timedelta | None
    group: str | None
    on_conflict: OnConflict
    #: Whether a task that runs for longer than `duration` releases its slot, so that another task starts.
    releases_on_overrun: bool

    def key_for(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the key of one call. It begins with the group: equal values of unrelated tasks are not one key."""
        prefix = path if self.group is None else _escape(self.group)
        return compute_key(ConcurrencyKeyError, path, prefix, self.key, args, kwargs)

    @property
    def period(self) -> timedelta:
        """The duration of the limit, or else that of the current settings."""
        if self.duration is not None:
            return self.duration
        period: object = steady_queue.default_concurrency_control_period
        for problem in _duration_problems(period):
            raise ConfigurationError(f"default_concurrency_control_period {problem}")
        return steady_queue.default_concurrency_control_period

    @property
    def overrun_after(self) -> int | None:
        """Microseconds after its claim when a job releases its slot; None: never."""
        return self.period // MICROSECOND if self.releases_on_overrun else None


def limits_concurrency(
    key: str | Callable[..., Any],
    to: int = 1,
    duration: timedelta | None = None,
    group: str | None = None,
    on_conflict: Literal["block", "discard"] = "block",
    on_overrun: Literal["keep", "release"] = "keep",
) -> Callable[[SteadyQueueTask[P, T]], SteadyQueueTask[P, T]]:
    """Limit to `to` how many tasks with the same key run at once; further tasks wait, or are discarded.

    Put it above `@task()`. `key` is a string, or a function of the task's arguments; a model instance stands for its
    model and primary key. Tasks with the same `group` share a limit; by default the group is the task's path. With
    `on_overrun="release"`, a task that runs for longer than `duration` releases its slot, so that another task starts.
    """
    if problems := list(_problems(key, to, duration, group, on_conflict, on_overrun)):
        raise ConfigurationError("limits_concurrency: " + "; ".join(problems))
    limit = Limit(key, to, duration, group, OnConflict[on_conflict.upper()], on_overrun == "release")

    def add_limit(task: SteadyQueueTask[P, T]) -> SteadyQueueTask[P, T]:
        from steady_queue.jobs.compat import Task
        from steady_queue.jobs.definition.task import SteadyQueueTask

        if not isinstance(task, Task):
            raise ConfigurationError(f"put @limits_concurrency above @task(); it was applied to {type(task).__name__}")
        # A task of another backend, in tests for example, has no limits.
        return replace(task, concurrency=limit) if issubclass(type(task), SteadyQueueTask) else task

    return add_limit


def _problems(
    key: object, to: object, duration: object, group: object, on_conflict: object, on_overrun: object
) -> Iterator[str]:
    if iscoroutinefunction(key):
        yield "key must not be an async function: it is called while a task is enqueued from sync code as well"
    elif not (isinstance(key, str) or callable(key)):
        yield f"key must be a string or a callable, not {type(key).__name__}"
    if not isinstance(to, int) or isinstance(to, bool) or not 1 <= to < 2**31:
        yield f"to must be an integer of at least 1 (and below 2**31), not {to!r}"
    if duration is not None:
        yield from (f"duration {problem}, or None" for problem in _duration_problems(duration))
    if group is not None:
        if not isinstance(group, str) or not group:
            yield f"group must be a string that is not empty, or None, not {group!r}"
        elif reason := explain_unstorable(_escape(group), KEY_LENGTH):
            yield f"group {reason}"
    if on_conflict not in ("block", "discard"):
        yield f"on_conflict must be 'block' or 'discard', not {on_conflict!r}"
    if on_overrun not in ("keep", "release"):
        yield f"on_overrun must be 'keep' or 'release', not {on_overrun!r}"


def _duration_problems(value: object) -> Iterator[str]:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= LONGEST_TIMEDELTA:
        yield f"must be a timedelta greater than zero (and of at most {LONGEST_TIMEDELTA.days:,} days), not {value!r}"


def _escape(group: str) -> str:
    """Escape the slash, which ends the group in a key: "a/b" with "c" must not be the same key as "a" with "b/c"."""
    return group.replace("%", "%25").replace("/", "%2F")
