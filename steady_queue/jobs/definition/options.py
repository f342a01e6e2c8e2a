"""Refuse options of a task, with a message that names the option, the value and what is allowed.

The rules are those of the framework. Its own messages name neither the value nor the task, and the error for a value
of a wrong type is that of a comparison.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from steady_queue.events.wording import suggest
from steady_queue.jobs.compat import DEFAULT_TASK_PRIORITY, InvalidTask, InvalidTaskBackend, task_backends
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable

if TYPE_CHECKING:
    from steady_queue.jobs.compat import BaseTaskBackend, Task

PRIORITIES = range(-100, 101)
BACKEND_PATH = "steady_queue.backend.SteadyQueueBackend"
#: Values are cut in messages.
VALUE_CHARACTERS = 100


def check_options(backend: BaseTaskBackend, task: Task[..., Any]) -> None:
    """Raise InvalidTask for an option that may differ between two enqueues of the same function."""
    _check_queue_name(backend, task.queue_name)
    if task.priority != DEFAULT_TASK_PRIORITY:
        _check_priority(backend, task.priority)
    if task.run_after is not None:
        _check_run_after(backend, task.run_after)


def _check_queue_name(backend: BaseTaskBackend, name: object) -> None:
    if not isinstance(name, str):
        raise InvalidTask(f"queue_name must be a string, not {_shown(name)}")
    if reason := explain_bad_queue_name(name) or explain_unstorable(name, NAME_LENGTH):
        raise InvalidTask(f"queue_name: the queue {_shown(name)} {reason}")
    if backend.queues and name not in backend.queues:
        known = sorted(backend.queues)
        suggestion = suggest(name, known)
        raise InvalidTask(
            f"queue_name: the queue {name!r} is not valid for backend {backend.alias!r}"
            f"{f'; {suggestion}' if suggestion else '.'} Its queues are {', '.join(map(repr, known))}; "
            f"to add one, add it to TASKS[{backend.alias!r}]['QUEUES']"
        )


def _check_priority(backend: BaseTaskBackend, priority: object) -> None:
    try:
        is_valid = priority in PRIORITIES
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise InvalidTask(f"priority must be a whole number between -100 and 100, not {_shown(priority)}")
    if not backend.supports_priority:
        raise InvalidTask(
            f"priority: {type(backend).__name__} does not support priorities; leave out priority={priority}"
        )


def _check_run_after(backend: BaseTaskBackend, moment: object) -> None:
    if not isinstance(moment, datetime):
        raise InvalidTask(f"run_after must be a datetime or a timedelta, not {_shown(moment)}")
    if settings.USE_TZ and not timezone.is_aware(moment):
        raise InvalidTask(
            f"run_after must be an aware datetime while USE_TZ is True, not {_shown(moment)}: "
            "pass a timedelta, or a time that is based on django.utils.timezone.now()"
        )
    if not backend.supports_defer:
        raise InvalidTask(f"run_after: {type(backend).__name__} does not support run_after; leave it out")


def explain_function(function: object, error: Exception) -> str:
    """The message for a function that the framework refuses as a task."""
    name = getattr(function, "__qualname__", None)
    if name is None or getattr(function, "__module__", None) is None:
        return f"{_shown(function)} cannot be a task: decorate a function of a module with @task ({error})"
    path = f"{function.__module__}.{name}"
    if "." in name:
        return (
            f"{path} cannot be a task, because a worker imports a task by its path: define the function at the top "
            "level of a module, and if a decorator is below @task, use functools.wraps in that decorator"
        )
    if name == "<lambda>":
        return f"{path} cannot be a task, because a worker imports a task by its path: define a function with def"
    return f"{path}: {error}"


def is_importable(function: object) -> bool:
    """Whether a worker finds the function by its name. The framework accepts lambdas, and functions of a class."""
    return str(getattr(function, "__qualname__", "")).isidentifier()


def find_backend(alias: str) -> BaseTaskBackend:
    """Return a backend by its name in TASKS."""
    try:
        return task_backends[alias]
    except (InvalidTaskBackend, TypeError) as error:
        if isinstance(alias, str) and alias in task_backends.settings:
            path = str(task_backends.settings[alias].get("BACKEND"))
            if path == BACKEND_PATH or not path.startswith("steady_queue."):
                raise
            raise InvalidTaskBackend(f"{error}. The backend of Steady Queue is {BACKEND_PATH!r}") from None
        known = ", ".join(map(repr, task_backends.settings)) or "none"
        raise InvalidTaskBackend(
            f"backend: TASKS in settings.py has no entry {_shown(alias)}; its entries are: {known}"
        ) from None


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # any value can be passed
        text = f"an instance of {type(value).__name__}"
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"
