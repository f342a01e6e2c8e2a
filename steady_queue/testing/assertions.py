"""Which tasks a test has enqueued: `enqueued`, and the assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steady_queue import arguments
from steady_queue.backend import SteadyQueueBackend
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.db.transactions import defers_to
from steady_queue.errors import ConfigurationError, DeserializationError
from steady_queue.jobs.compat import task_backends
from steady_queue.jobs.results import results
from steady_queue.models import BlockedExecution, ReadyExecution, ScheduledExecution
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.store.job import JobRecord

    AnyTask = Task[..., Any]
    Args = Sequence[Any] | None
    Kwargs = Mapping[str, Any] | None

#: How many waiting jobs the message of a failed assertion lists.
MAX_LISTED = 20


def enqueued(task: AnyTask | None = None) -> list[TaskResult[Any]]:
    """Return the results of the waiting tasks, of all tasks or of one, the oldest first."""
    return [results.of_record(job) for job in _waiting() if task is None or job.task_path == task.module_path]


def assert_enqueued(
    task: AnyTask,
    *,
    args: Args = None,
    kwargs: Kwargs = None,
    queue: str | None = None,
    priority: int | None = None,
    count: int | None = None,
) -> list[TaskResult[Any]]:
    """Fail unless such a call is waiting (ready, scheduled or blocked), or `count` of them; returns their results.

    A parameter that is left out matches every call. Arguments are compared as the task would receive them.
    """
    backend = task_backends[task.backend]
    if not isinstance(backend, SteadyQueueBackend):
        raise ConfigurationError(f"{task.module_path} is enqueued by {type(backend).__name__}, not by Steady Queue")
    given = {"args": args if args is None else list(args), "kwargs": kwargs, "queue": queue, "priority": priority}
    expected = {name: value for name, value in given.items() if value is not None}
    waiting = _waiting()
    found = [job for job in waiting if job.task_path == task.module_path and expected.items() <= _describe(job).items()]
    if found if count is None else len(found) == count:
        return [results.of_record(job) for job in found]
    problem = "is not enqueued" if count is None else f"is enqueued {len(found)} times, not {count}"
    raise AssertionError(f"{_format_call(task.module_path, expected)} {problem}. {_list_jobs(waiting, backend)}")


def assert_not_enqueued(
    task: AnyTask, *, args: Args = None, kwargs: Kwargs = None, queue: str | None = None, priority: int | None = None
) -> None:
    """Fail if such a call of the task is waiting; a parameter that is left out matches every call."""
    assert_enqueued(task, args=args, kwargs=kwargs, queue=queue, priority=priority, count=0)


def _waiting() -> list[JobRecord]:
    driver = django_driver(queue_alias())
    tables = (ReadyExecution, ScheduledExecution, BlockedExecution)
    ids = [pk for table in tables for pk in table._default_manager.using(driver.alias).values_list("pk", flat=True)]
    return driver.run(find_jobs(driver.sql, sorted(ids)))


def _describe(job: JobRecord) -> dict[str, Any]:
    try:
        args, kwargs = arguments.loads(job.arguments)
    except DeserializationError:  # a model instance has been deleted
        args, kwargs = arguments.view_text(job.arguments)
    return {"args": args, "kwargs": kwargs, "queue": job.queue_name, "priority": job.priority}


def _format_call(path: str, values: Mapping[str, Any]) -> str:
    return " ".join([path, *(f"{name}={value!r:.200}" for name, value in values.items())])


def _list_jobs(waiting: Sequence[JobRecord], backend: SteadyQueueBackend) -> str:
    lines = [f"{_format_call(job.task_path, _describe(job))} ({job.status})" for job in waiting[:MAX_LISTED]]
    lines += [f"and {len(waiting) - MAX_LISTED} more"] if len(waiting) > MAX_LISTED else []
    text = "\n  ".join(["These are waiting:" if lines else "No task is waiting.", *lines])
    if defers_to(backend.commit_with, queue_alias()):
        text += f"\nTasks are stored when the transaction on {backend.commit_with!r} commits:"
        text += " see captureOnCommitCallbacks(execute=True)."
    return text
