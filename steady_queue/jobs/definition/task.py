"""Tasks: the decorator `@task`, the class of its tasks, and calls of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from functools import lru_cache
from inspect import iscoroutinefunction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypedDict, TypeVar, Unpack, overload

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
from steady_queue.jobs.definition.options import find_backend
from steady_queue.jobs.definition.policy import add_headers, find_contradictions, find_problems, policy_of
from steady_queue.store.job import Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Self

    from steady_queue.concurrency import Limit
    from steady_queue.jobs.compat import BaseTaskBackend
    from steady_queue.jobs.definition.backoff import Backoff
    from steady_queue.jobs.definition.policy import ExceptionClasses
    from steady_queue.jobs.definition.uniqueness import Unique
    from steady_queue.jobs.results.task_result import SteadyQueueResult
    from steady_queue.jobs.running.context import TaskContext

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

#: What other packages call `enqueue`.
OTHER_ENQUEUE_NAMES = frozenset(
    {"apply_async", "defer", "delay", "delay_on_commit", "enqueue_async", "schedule", "send"}
)
#: The tasks that are transactional: their paths, and the aliases of their backends.
transactional_tasks: dict[str, str] = {}
#: Options that only a call has.
CALL_OPTIONS = ("run_after", "expires_at", "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyQueueTask(GenericTask[P, T]):
    """The framework's Task with the options of Steady Queue."""

    #: Whether the job exists only if the surrounding transaction commits: see `steady_queue.jobs.enqueueing.enqueue`.
    enqueue_on_commit: bool = True
    #: Set by `limits_concurrency`.
    concurrency: Limit | None = None
    # The options of `Policy`: None for the default of the project.
    max_attempts: float | None = None
    backoff: Backoff | None = field(default=None, hash=False)
    retry_on: ExceptionClasses | type[BaseException] | None = None
    give_up_on: ExceptionClasses | type[BaseException] | None = None
    retry_lost: bool | None = None
    timeout: float | timedelta | None = None
    expires_after: float | timedelta | None = None
    transactional: bool = False
    unique: Unique | None = None
    #: Set for a call, by `using`.
    expires_at: datetime | None = None
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    #: What `using` has set and a job stores in its headers, ready for JSON.
    call_headers: Mapping[str, float | None] | None = field(default=None, hash=False, compare=False)

    # The zero-argument super() does not work in a dataclass with slots: it refers to the class before the slots.

    def __post_init__(self) -> None:
        GenericTask.__post_init__(self)
        if _values_of(self) != _DEFAULT_VALUES:
            _check_policy(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        enqueue_on_commit: bool | None = None,
        timeout: float | timedelta | None = None,
        max_attempts: float | None = None,
        expires_after: float | timedelta | None = None,
        expires_at: datetime | None = None,
        unique: Unique | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the same task with other options. A timedelta as `run_after` is a delay from now."""
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": _add_to_now(run_after) if isinstance(run_after, timedelta) else run_after,
            "backend": backend,
            "enqueue_on_commit": enqueue_on_commit,
            "timeout": timeout,
            "max_attempts": max_attempts,
            "expires_after": expires_after,
            "expires_at": expires_at,
            "unique": unique,
            "metadata": metadata,
            "call_headers": add_headers(self.call_headers, timeout=timeout, max_attempts=max_attempts),
        }
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def get_backend(self) -> BaseTaskBackend:
        return find_backend(self.backend)

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall:
        """Return a call of this task with these arguments, for `enqueue_all`."""
        return TaskCall(self, args, kwargs)

    if TYPE_CHECKING:  # the framework's own methods, which return the results of the backend

        @overload
        def enqueue(
            self: SteadyQueueTask[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
        ) -> SteadyQueueResult[R]: ...
        @overload
        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> SteadyQueueResult[T]: ...
        def enqueue(self, *args: Any, **kwargs: Any) -> Any: ...
        @overload
        async def aenqueue(
            self: SteadyQueueTask[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
        ) -> SteadyQueueResult[R]: ...
        @overload
        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> SteadyQueueResult[T]: ...
        async def aenqueue(self, *args: Any, **kwargs: Any) -> Any: ...
        def get_result(self, result_id: str) -> SteadyQueueResult[T]: ...
        async def aget_result(self, result_id: str) -> SteadyQueueResult[T]: ...

    # No `__call__` to name enqueue(): templates would call a task, and on_commit(task) would fail after the commit.

    if not TYPE_CHECKING:  # a type checker reports an unknown attribute by itself

        def __getattr__(self, name):
            hint = ": enqueue it with .enqueue(...) or await .aenqueue(...)" if name in OTHER_ENQUEUE_NAMES else ""
            # Not self.module_path: without a function, in an object that is not complete, that would end up here again.
            function = object.__getattribute__(self, "func")
            path = f"{function.__module__}.{function.__qualname__}"
            raise AttributeError(f"the task {path} has no attribute {name!r}{hint}", name=name, obj=self)

    def __reduce__(self) -> tuple[Any, ...]:
        # By path, not by function: the path names this task, and a key may be a lambda.
        names = _PICKLED_OPTIONS if self.unique == _find_unique(self.module_path) else (*_PICKLED_OPTIONS, "unique")
        return (_restore, (self.module_path, {name: getattr(self, name) for name in names}))


_OWN_FIELDS = {field.name: field for field in fields(SteadyQueueTask)[len(fields(GenericTask)) :]}
#: The options that only tasks of Steady Queue have.
OWN_OPTIONS = tuple(name for name in _OWN_FIELDS if name not in ("concurrency", "call_headers", *CALL_OPTIONS))
TASK_OPTIONS = f"priority, queue_name, backend, takes_context, {', '.join(OWN_OPTIONS[:-1])} and {OWN_OPTIONS[-1]}"
#: What may differ between two calls of the same task; the rest comes from the code. So does `unique`, if it does not.
_PICKLED_OPTIONS = tuple(
    field.name
    for field in fields(SteadyQueueTask)
    if field.name
    not in ("func", "concurrency", "backoff", "retry_on", "give_up_on", "retry_lost", "transactional", "unique")
)
_POLICY_FIELDS = tuple(name for name in _OWN_FIELDS if name not in ("enqueue_on_commit", "concurrency", "call_headers"))
_values_of = attrgetter(*_POLICY_FIELDS)
_DEFAULT_VALUES = tuple(_OWN_FIELDS[name].default for name in _POLICY_FIELDS)


def _check_policy(task: SteadyQueueTask[..., Any]) -> None:
    """Refuse options that make no sense, by themselves or together."""
    given = dict(zip(_POLICY_FIELDS, _values_of(task), strict=True))
    if problems := list(find_problems(given)):
        raise InvalidTask(f"{task.module_path}: {'; '.join(problems)}")
    for name in ("retry_on", "give_up_on"):
        if isinstance(given[name], list):  # a task can be hashed
            object.__setattr__(task, name, tuple(given[name]))
    policy = policy_of(task, task.get_backend().options)
    if policy.transactional:
        transactional_tasks[task.module_path] = task.backend
    if problems := list(find_contradictions(task, policy)):
        raise InvalidTask(f"{task.module_path}: {'; '.join(problems)}")


class TaskOptions(TypedDict, total=False):
    """The options of a task."""

    priority: int
    queue_name: str
    backend: str
    enqueue_on_commit: bool
    max_attempts: float | None
    backoff: Backoff | None
    retry_on: ExceptionClasses | type[BaseException] | None
    give_up_on: ExceptionClasses | type[BaseException] | None
    retry_lost: bool | None
    timeout: float | timedelta | None
    expires_after: float | timedelta | None
    transactional: bool
    unique: Unique | None


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


def _find_unique(path: str) -> Unique | None:
    """The option of the task as it is in the code."""
    try:
        return getattr(import_string(path), "unique", None)
    except ImportError:
        return None


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
    *, takes_context: Literal[False] = False, **options: Unpack[TaskOptions]
) -> Callable[[Callable[P, T]], SteadyQueueTask[P, T]]: ...


@overload
def task(
    *, takes_context: Literal[True], **options: Unpack[TaskOptions]
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
    if unknown := options.keys() - set(OWN_OPTIONS):
        first = min(unknown)
        hint = (
            f"set it for a call, with .using({first}=...)"
            if first in CALL_OPTIONS
            else f"the options are {TASK_OPTIONS}"
        )
        raise TypeError(f"task() got an unexpected keyword argument {first!r}: {hint}")

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
