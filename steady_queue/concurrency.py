"""Concurrency limits: at most so many tasks with the same key are ready or running at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import steady_queue
from steady_queue.errors import ConcurrencyKeyError, ConfigurationError
from steady_queue.store.job import OnConflict
from steady_queue.store.names import KEY_LENGTH, LONGEST_TIMEDELTA, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from steady_queue.jobs.task import SteadyQueueTask

P = ParamSpec("P")
T = TypeVar("T")

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that a task carries."""

    key: str | Callable[..., Any]
    to: int
    duration: timedelta | None
    group: str | None
    on_conflict: OnConflict
    #: Whether a task that runs for longer than `duration` lets others start beside it.
    lets_go: bool

    def key_for(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The key of one call: its group and value, so that equal values of unrelated tasks do not meet."""
        try:
            value = self.key(*args, **kwargs) if callable(self.key) else self.key
            text = value if type(value) is str else _as_text(value)
        except ConcurrencyKeyError as error:
            raise ConcurrencyKeyError(f"the concurrency key of {path} {error}") from None
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ConcurrencyKeyError(f"the concurrency key of {path} could not be made: {what}") from error
        key = f"{path if self.group is None else _escaped(self.group)}/{text}"
        if reason := explain_unstorable(key, KEY_LENGTH):
            raise ConcurrencyKeyError(f"the concurrency key of {path} {reason}")
        return key

    @property
    def period(self) -> timedelta:
        """Its duration, or that of the settings as they are now."""
        if self.duration is not None:
            return self.duration
        period: object = steady_queue.default_concurrency_control_period
        for problem in _bad_duration(period):
            raise ConfigurationError(f"default_concurrency_control_period {problem}")
        return steady_queue.default_concurrency_control_period

    @property
    def overrun_after(self) -> int | None:
        """Microseconds after its claim when a job lets its slot go; None: never."""
        return self.period // MICROSECOND if self.lets_go else None


def limits_concurrency(
    key: str | Callable[..., Any],
    to: int = 1,
    duration: timedelta | None = None,
    group: str | None = None,
    on_conflict: Literal["block", "discard"] = "block",
    on_overrun: Literal["keep", "release"] = "keep",
) -> Callable[[SteadyQueueTask[P, T]], SteadyQueueTask[P, T]]:
    """Let at most `to` tasks with the same key run at once; the others wait, or are discarded.

    Goes above `@task()`. `key` is a text, or is called with the task's arguments; a model instance stands for its model
    and primary key. Tasks share a limit when they share `group`, by default the task's own path. With
    `on_overrun="release"` a task that runs for longer than `duration` lets another start beside it.
    """
    if problems := list(_problems(key, to, duration, group, on_conflict, on_overrun)):
        raise ConfigurationError("limits_concurrency: " + "; ".join(problems))
    limit = Limit(key, to, duration, group, OnConflict[on_conflict.upper()], on_overrun == "release")

    def limited(task: SteadyQueueTask[P, T]) -> SteadyQueueTask[P, T]:
        from steady_queue.jobs.compat import Task
        from steady_queue.jobs.task import SteadyQueueTask

        if not isinstance(task, Task):
            raise ConfigurationError(f"limits_concurrency goes above @task(); it was given {type(task).__name__}")
        # A task of another backend, a test's perhaps, knows no limits.
        return replace(task, concurrency=limit) if issubclass(type(task), SteadyQueueTask) else task

    return limited


def _problems(
    key: object, to: object, duration: object, group: object, on_conflict: object, on_overrun: object
) -> Iterator[str]:
    if iscoroutinefunction(key):
        yield "key must not be an async function: it is called while a task is enqueued from sync code as well"
    elif not (isinstance(key, str) or callable(key)):
        yield f"key must be a text or a callable, not {type(key).__name__}"
    if not isinstance(to, int) or isinstance(to, bool) or not 1 <= to < 2**31:
        yield f"to must be a whole number of at least 1 (and below 2**31), not {to!r}"
    if duration is not None:
        yield from (f"duration {problem}, or None" for problem in _bad_duration(duration))
    if group is not None:
        if not isinstance(group, str) or not group:
            yield f"group must be a text of at least one character, or None, not {group!r}"
        elif reason := explain_unstorable(_escaped(group), KEY_LENGTH):
            yield f"group {reason}"
    if on_conflict not in ("block", "discard"):
        yield f"on_conflict must be 'block' or 'discard', not {on_conflict!r}"
    if on_overrun not in ("keep", "release"):
        yield f"on_overrun must be 'keep' or 'release', not {on_overrun!r}"


def _bad_duration(value: object) -> Iterator[str]:
    if not isinstance(value, timedelta) or not timedelta(0) < value <= LONGEST_TIMEDELTA:
        yield f"must be a timedelta greater than zero (and of at most {LONGEST_TIMEDELTA.days:,} days), not {value!r}"


def _escaped(group: str) -> str:
    """A group without the slash that ends it in a key: what is "a/b" and "c" must not be what is "a" and "b/c"."""
    return group.replace("%", "%25").replace("/", "%2F")


def _as_text(value: object) -> str:
    from django.db.models import Model

    if value is None:
        raise ConcurrencyKeyError("is None: return something that tells which tasks exclude each other")
    if isawaitable(value):
        if iscoroutine(value):
            value.close()
        raise ConcurrencyKeyError(f"is {type(value).__name__}, which would have to be awaited")
    if not isinstance(value, Model):
        return str(value)
    model, pk = value._meta.concrete_model or type(value), value.pk
    if value._state.adding or pk is None:
        raise ConcurrencyKeyError(f"is an instance of {model._meta.label} that has not been saved")
    return f"{model._meta.label}/{pk}"
