"""Which paths may run. A path in a row is data: it is looked up, and nothing outside installed apps is imported."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.apps import apps

from steady_queue.errors import UnknownTaskError
from steady_queue.jobs.compat import Task

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from steady_queue.concurrency import Limit

T = TypeVar("T")

#: How long a path that could not be resolved is not tried again where only its limit is asked for, in seconds.
UNKNOWN_SECONDS = 60.0


class Registry:
    """The tasks of the installed apps, found by their paths."""

    def __init__(self) -> None:
        self._known: dict[str, Task[..., Any]] = {}

    def resolve(self, path: str) -> Task[..., Any]:
        """The task at this path, or UnknownTaskError."""
        task = self._known.get(path)
        if task is None:
            task = self._known[path] = self._find(path)
        return task

    def _find(self, path: str) -> Task[..., Any]:
        module_name, _, name = path.rpartition(".")
        module = sys.modules.get(module_name)
        if module is None:
            if not belongs_to_installed_app(module_name):
                raise UnknownTaskError(f"{path!r} is not a task of an installed app")
            try:
                module = import_module(module_name)
            except ImportError as error:
                raise UnknownTaskError(f"{path!r} cannot be imported: {error}") from error
        task = getattr(module, name, None)
        if not isinstance(task, Task):
            raise UnknownTaskError(f"{path!r} is not a task")
        return task


def belongs_to_installed_app(module_name: str) -> bool:
    """Whether a module is part of an installed app's package."""
    return any(
        module_name == config.name or module_name.startswith(f"{config.name}.") for config in apps.get_app_configs()
    )


def may_belong_to_project(path: str) -> bool:
    """Whether a path could name a task of this project: several may share a database."""
    module_name = path.rpartition(".")[0]
    return module_name in sys.modules or belongs_to_installed_app(module_name)


registry = Registry()


class LimitLookup(Generic[T]):
    """What the limits of the tasks in the code say now, by their paths."""

    def __init__(self, said: Callable[[Limit], T]) -> None:
        self._said = said
        self._unknown_until: dict[str, float] = {}

    def get(self, path: str, otherwise: T, /) -> T:
        """For a path that is not in the code, or has no limit there any more, what a job was stored with counts."""
        if self._unknown_until and time.monotonic() < self._unknown_until.get(path, 0):
            return otherwise
        try:
            limit: Limit | None = getattr(registry.resolve(path), "concurrency", None)
        except Exception:  # that of a module that cannot be imported may be any
            # An import that fails may take its time, and it would be tried for each job of the path.
            self._remember_unknown(path)
            return otherwise
        return otherwise if limit is None else self._said(limit)

    def _remember_unknown(self, path: str) -> None:
        now = time.monotonic()
        # Replaced, not changed: others may read it at this moment.
        self._unknown_until = {
            **{other: until for other, until in self._unknown_until.items() if until > now},
            path: now + UNKNOWN_SECONDS,
        }


limits_in_force: LimitLookup[int] = LimitLookup(attrgetter("to"))
durations_in_force: LimitLookup[timedelta] = LimitLookup(attrgetter("period"))
