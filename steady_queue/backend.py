"""The backend of `django.tasks` and `django_tasks`: how the framework enqueues tasks and reads results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django.conf import settings
from django.utils import timezone

from steady_queue import arguments
from steady_queue.db.transactions import arun_one, run_one
from steady_queue.jobs import results
from steady_queue.jobs.compat import DEFAULT_TASK_QUEUE_NAME, BaseTaskBackend, InvalidTask, TaskResultDoesNotExist
from steady_queue.jobs.enqueue import aenqueue_calls, enqueue_calls
from steady_queue.jobs.task import SteadyQueueTask, TaskCall
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from django.core.checks import CheckMessage

    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.store.job import JobRecord

P = ParamSpec("P")
T = TypeVar("T")

#: Functions whose signature has been inspected, with and without context: an inspection costs more than an enqueue.
_inspected: set[tuple[Callable[..., Any], bool]] = set()


class SteadyQueueBackend(BaseTaskBackend):
    """Stores tasks in the database that `steady_queue.database` names.

    OPTIONS: `aenqueue` ("auto", "django" or "native") chooses the connection of async code; `commit_with` names the
    database whose transaction `enqueue_on_commit` waits for when the queue is in another; `max_arguments_bytes` limits
    the stored arguments of a task.
    """

    task_class = SteadyQueueTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        # The system checks report values of a wrong type; here such values must not keep the checks from running.
        queues, options = params.get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]), params.get("OPTIONS", {})
        names = queues if isinstance(queues, (list, tuple, set, frozenset)) else []
        valid = {"QUEUES": [name for name in names if isinstance(name, str)]}
        super().__init__(alias, {**params, **valid, "OPTIONS": options if isinstance(options, dict) else {}})
        self.async_connection: str = self.options.get("aenqueue", "auto")
        self.commit_with: str = self.options.get("commit_with", "default")
        self.max_arguments_bytes: int = self.options.get("max_arguments_bytes", arguments.MAX_BYTES)

    # -- enqueue ------------------------------------------------------------------------------------------------------

    def validate_task(self, task: Task[..., Any]) -> None:
        # Before the framework's own rules, whose message for such a name does not name the argument.
        if isinstance(task.queue_name, str) and (reason := explain_bad_queue_name(task.queue_name)):
            raise InvalidTask(f"queue_name: the queue {task.queue_name!r} {reason}")
        inspected = (task.func, task.takes_context)
        try:
            if inspected not in _inspected:
                super().validate_task(task)
                _inspected.add(inspected)
            else:
                self._validate_options(task)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise InvalidTask(f"a queue name, priority or run_after of the wrong type: {error}") from error
        for what, name in (("queue name", task.queue_name), ("path", task.module_path)):
            if not isinstance(name, str):
                raise InvalidTask(f"the {what} must be a string, not {type(name).__name__}")
            if reason := explain_unstorable(name, NAME_LENGTH):
                raise InvalidTask(f"the {what} {reason}")

    def _validate_options(self, task: Task[..., Any]) -> None:
        """Apply the framework's rules to the options that can differ between two enqueues of the same function."""
        if not (-100 <= task.priority <= 100 and int(task.priority) == task.priority):
            raise InvalidTask("priority must be a whole number between -100 and 100.")
        if task.run_after is not None and settings.USE_TZ and not timezone.is_aware(task.run_after):
            raise InvalidTask("run_after must be an aware datetime.")
        if self.queues and task.queue_name not in self.queues:
            raise InvalidTask(f"Queue '{task.queue_name}' is not valid for backend.")

    def enqueue(self, task: Task[P, T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[T]:
        return enqueue_calls(self, [TaskCall(task, tuple(args), kwargs)])[0]

    async def aenqueue(self, task: Task[P, T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[T]:
        return (await aenqueue_calls(self, [TaskCall(task, tuple(args), kwargs)]))[0]

    # -- results ------------------------------------------------------------------------------------------------------

    def get_result(self, result_id: str) -> TaskResult[Any]:
        job_id = results.parse_id(result_id)
        return _result_of(result_id, run_one(lambda sql: find_jobs(sql, [job_id])))

    async def aget_result(self, result_id: str) -> TaskResult[Any]:
        job_id = results.parse_id(result_id)
        found = await arun_one(lambda sql: find_jobs(sql, [job_id]), self.async_connection)
        return _result_of(result_id, found)

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        from steady_queue.checks import installation

        return installation.check_backend(self)


def _result_of(result_id: str, found: list[JobRecord]) -> TaskResult[Any]:
    if not found:
        raise TaskResultDoesNotExist(result_id)
    return results.of_record(found[0])
