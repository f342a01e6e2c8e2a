"""Concurrency limits: at most so many tasks with the same key are ready or running at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from steady_queue.errors import ArgumentError, ConfigurationError
from steady_queue.store.job import OnConflict
from steady_queue.store.limits import KEY_LENGTH, unstorable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from steady_queue.definition import SteadyQueueTask

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit that a task carries."""

    key: str | Callable[..., Any]
    to: int
    group: str | None
    on_conflict: OnConflict

    def key_for(self, path: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The key of one call: its group and value, so that equal values of unrelated tasks do not meet."""
        value = self.key(*args, **kwargs) if callable(self.key) else self.key
        key = f"{path if self.group is None else self.group}/{_as_text(value)}"
        if reason := unstorable(key, KEY_LENGTH):
            raise ArgumentError(f"the concurrency key {reason}")
        return key


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
    and primary key. Tasks share a limit when they share `group`, by default the task's own path.
    """
    if not (isinstance(key, str) or callable(key)):
        raise ConfigurationError(f"key must be a text or a callable, not {type(key).__name__}")
    if not isinstance(to, int) or isinstance(to, bool) or not 1 <= to < 2**31:
        raise ConfigurationError(f"to must be a whole number of at least 1 (and below 2**31), not {to!r}")
    try:
        limit = Limit(key, to, group, OnConflict[on_conflict.upper()])
    except (KeyError, AttributeError):
        raise ConfigurationError(f"on_conflict must be 'block' or 'discard', not {on_conflict!r}") from None

    def limited(task: SteadyQueueTask[P, T]) -> SteadyQueueTask[P, T]:
        from steady_queue.compat import Task
        from steady_queue.definition import SteadyQueueTask

        if not isinstance(task, Task):
            raise ConfigurationError(f"limits_concurrency goes above @task(); it was given {type(task).__name__}")
        # A task of another backend, a test's perhaps, knows no limits.
        return replace(task, concurrency=limit) if issubclass(type(task), SteadyQueueTask) else task

    return limited


def _as_text(value: object) -> str:
    from django.db.models import Model

    return f"{value._meta.label}/{value.pk}" if isinstance(value, Model) else str(value)
