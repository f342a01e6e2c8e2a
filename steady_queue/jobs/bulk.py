"""Bulk enqueue: many calls of one or several tasks in one transaction, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import Task, task_backends
from steady_queue.jobs.results import Results
from steady_queue.jobs.task import TaskCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from steady_queue.backend import SteadyQueueBackend

    Call = TaskCall | tuple[Task[..., Any], Sequence[Any]] | tuple[Task[..., Any], Sequence[Any], Mapping[str, Any]]


def enqueue_all(calls: Iterable[Call]) -> Results:
    """Enqueue many calls, all or none: `enqueue_all([greet.bind("Ada"), greet.bind("Alan", times=2)])`.

    Returns their results in order, each built when it is looked at. Tasks with `on_conflict="discard"` that found no
    free slot are among them, and named in `discarded`; inside a transaction that is known after its commit.
    """
    bound = _bound(calls)
    return _backend(bound).enqueue_calls(bound) if bound else Results([], [])


async def aenqueue_all(calls: Iterable[Call]) -> Results:
    """The same from async code."""
    bound = _bound(calls)
    return await _backend(bound).aenqueue_calls(bound) if bound else Results([], [])


def _bound(calls: Iterable[Call]) -> list[TaskCall]:
    return [call if type(call) is TaskCall else _call_of(call) for call in calls]


def _call_of(call: object) -> TaskCall:
    """A call from a tuple of task, arguments and named arguments."""
    if isinstance(call, tuple) and 1 <= len(call) <= 3 and isinstance(call[0], Task):
        args = call[1] if len(call) > 1 else ()
        kwargs = call[2] if len(call) > 2 else {}
        if isinstance(args, (list, tuple)) and isinstance(kwargs, Mapping):
            return TaskCall(call[0], tuple(args), kwargs)
    raise TypeError(
        f"enqueue_all takes task.bind(...) or (task, args, kwargs), not {type(call).__name__} {call!r:.100}"
    )


def _backend(calls: Sequence[TaskCall]) -> SteadyQueueBackend:
    aliases = {call.task.backend for call in calls}
    if len(aliases) > 1:
        raise ConfigurationError(f"enqueue_all is one transaction of one backend, not of {sorted(aliases)}")
    backend = task_backends[aliases.pop()]
    if not hasattr(backend, "enqueue_calls"):
        raise ConfigurationError(f"enqueue_all needs a backend of Steady Queue, not {type(backend).__name__}")
    return cast("SteadyQueueBackend", backend)
