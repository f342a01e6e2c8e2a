"""Tasks: the decorator `@task`, the class of its tasks, and calls of tasks."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, overload

from django.utils import timezone
from django.utils.module_loading import import_string

from steady_queue.jobs.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    GenericTask,
    InvalidTask,
    Task,
)
from steady_queue.jobs.options import find_backend
from steady_queue.store.job import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from steady_queue.concurrency import Limit
    from steady_queue.jobs.compat import BaseTaskBackend, TaskContext

P = ParamSpec("P")
T = TypeVar("T")

#: What other packages call `enqueue`.
OTHER_ENQUEUE_NAMES = frozenset(
    {"apply_async", "defer", "delay", "delay_on_commit", "enqueue_async", "schedule", "send"}
)
TASK_OPTIONS = "priority, queue_name, backend, takes_context and enqueue_on_commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyQueueTask(GenericTask[P, T]):
    """The framework's Task with the options of Steady Queue."""

    #: Whether the job exists only if the surrounding transaction commits: see `steady_queue.jobs.enqueue`.
    enqueue_on_commit: bool = True
    #: Set by `limits_concurrency`.
    concurrency: Limit | None = None

    # The zero-argument super() does not work in a dataclass with slots: it refers to the class before the slots.

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        enqueue_on_commit: bool | None = None,
    ) -> Self:
        """Return the same task with other options. A timedelta is a delay from now."""
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": _add_to_now(run_after) if isinstance(run_after, timedelta) else run_after,
            "backend": backend,
            "enqueue_on_commit": enqueue_on_commit,
        }
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def get_backend(self) -> BaseTaskBackend:
        return find_backend(self.backend)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall:
        """Return a call of this task with these arguments, for `enqueue_all`."""
        return TaskCall(self, args, kwargs)

    # No `__call__` to name enqueue(): templates would call a task, and on_commit(task) would fail after the commit.

    if not TYPE_CHECKING:  # a type checker reports an unknown attribute by itself

        def __getattr__(self, name):
            hint = ": enqueue it with .enqueue(...) or await .aenqueue(...)" if name in OTHER_ENQUEUE_NAMES else ""
            # Not self.module_path: without a function, in an object that is not complete, that would end up here again.
            function = object.__getattribute__(self, "func")
            path = f"{function.__module__}.{function.__qualname__}"
            raise AttributeError(f"the task {path} has no attribute {name!r}{hint}", name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        # By path, not by function: the path names this task, and a concurrency key may be a lambda.
        options = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("func", "concurrency")
        }
        return (_restore, (self.module_path, options))


class TaskCall(NamedTuple):
    """A task and the arguments of one call of it."""

    task: Task[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


def _add_to_now(delay: timedelta) -> datetime:
    try:
        return timezone.now() + delay
    except OverflowError:
        raise InvalidTask(f"run_after is too large: {delay!r}") from None


def _restore(path: str, options: dict[str, Any]) -> Task[..., Any]:
    try:
        task = import_string(path)
    except ImportError as error:
        raise ValueError(f"Expected {path!r} to point to a Task instance.") from error
    if not isinstance(task, Task):
        raise ValueError(f"Expected {path!r} to point to a Task instance.")
    return replace(task, **options)


@lru_cache(maxsize=4096)
def lane_of(function: Callable[..., Any]) -> Lane:
    """Return the lane of a function: where it runs."""
    return Lane.ASYNC if iscoroutinefunction(function) else Lane.THREAD


@overload
def task(function: Callable[P, T], /) -> SteadyQueueTask[P, T]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[False] = False,
    enqueue_on_commit: bool = ...,
) -> Callable[[Callable[P, T]], SteadyQueueTask[P, T]]: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: Literal[True],
    enqueue_on_commit: bool = ...,
) -> Callable[[Callable[Concatenate[TaskContext, P], T]], SteadyQueueTask[P, T]]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Turn a function into a task, with or without options, the same on every version of Django.

    With a backend of another package (in tests, for example) the options that only Steady Queue has are left out.
    """
    if unknown := options.keys() - {"enqueue_on_commit"}:
        hint = (
            "set it for a call, with .using(run_after=...)"
            if "run_after" in unknown
            else f"the options are {TASK_OPTIONS}"
        )
        raise TypeError(f"task() got an unexpected keyword argument {min(unknown)!r}: {hint}")

    def build_task(function: Callable[..., Any]) -> Task[..., Any]:
        task_class = find_backend(backend).task_class
        own = options if issubclass(task_class, SteadyQueueTask) else {}
        return task_class(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            **own,
        )

    return build_task if function is None else build_task(function)
