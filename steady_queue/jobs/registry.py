"""Find the task of a stored path. A stored path is data: nothing outside the installed apps is imported for it."""

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

#: For how long a path that could not be resolved is not tried again where only its limit is needed.
UNKNOWN_SECONDS = 60.0


class Registry:
    """The tasks of the installed apps, by their paths."""

    def __init__(self) -> None:
        self._known: dict[str, Task[..., Any]] = {}

    def resolve(self, path: str) -> Task[..., Any]:
        """Return the task at this path, or raise UnknownTaskError."""
        task = self._known.get(path)
        if task is None:
            task = self._known[path] = self._find(path)
        return task

    def _find(self, path: str) -> Task[..., Any]:
        module_name, _, name = path.rpartition(".")
        if not may_belong_to_project(path):
            raise UnknownTaskError(
                f"{path!r} is not a task of an installed app: define it in the module tasks of an app in "
                "INSTALLED_APPS; a worker does not import other modules"
            )
        try:
            # Not `sys.modules`: it has a module that another thread is importing, and that has not all its names yet.
            module = import_module(module_name)
        except ImportError as error:
            raise UnknownTaskError(f"{path!r} cannot be imported: {error}") from error
        task = getattr(module, name, None)
        if not isinstance(task, Task):
            raise UnknownTaskError(f"{path!r} is not a task: {_explain_missing(module_name, name)}")
        return task


def _explain_missing(module_name: str, name: str) -> str:
    if module_name == "__main__":
        return "it was defined in a script, which a worker does not import; define it in the module tasks of an app"
    return (
        f"the module {module_name} has no task {name!r} in this process; if the code is newer, restart the worker;"
        " if the task was renamed, restore the old name and retry the task"
    )


def belongs_to_installed_app(module_name: str) -> bool:
    """Whether a module is part of an installed app's package."""
    return any(
        module_name == config.name or module_name.startswith(f"{config.name}.") for config in apps.get_app_configs()
    )


def may_belong_to_project(path: str) -> bool:
    """Whether a path may name a task of this project: several projects can share a database."""
    module_name = path.rpartition(".")[0]
    return module_name in sys.modules or belongs_to_installed_app(module_name)


registry = Registry()


class LimitLookup(Generic[T]):
    """Reads one value of the limit that a task has in the code, by the task's path."""

    def __init__(self, read: Callable[[Limit], T]) -> None:
        self._read = read
        self._unknown_until: dict[str, float] = {}

    def get(self, path: str, otherwise: T, /) -> T:
        """Return the value for a path; `otherwise`, which the job was stored with, if the code has no limit for it."""
        if self._unknown_until and time.monotonic() < self._unknown_until.get(path, 0):
            return otherwise
        try:
            limit: Limit | None = getattr(registry.resolve(path), "concurrency", None)
        except Exception:  # importing a module may raise anything
            # A failing import can be slow, and it would be repeated for each job of the path.
            self._remember_unknown(path)
            return otherwise
        return otherwise if limit is None else self._read(limit)

    def _remember_unknown(self, path: str) -> None:
        now = time.monotonic()
        # Replaced, not changed: other threads may be reading it.
        self._unknown_until = {
            **{other: until for other, until in self._unknown_until.items() if until > now},
            path: now + UNKNOWN_SECONDS,
        }


limits_in_force: LimitLookup[int] = LimitLookup(attrgetter("to"))
durations_in_force: LimitLookup[timedelta] = LimitLookup(attrgetter("period"))
