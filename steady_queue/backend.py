"""The backend of `django.tasks` and `django_tasks`: how the framework enqueues tasks and reads results."""

from __future__ import annotations

from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django.core.exceptions import SynchronousOnlyOperation

from steady_queue import actions, arguments
from steady_queue.db.transactions import arun_one, refused_in_async_code, run_one
from steady_queue.jobs.compat import DEFAULT_TASK_QUEUE_NAME, BaseTaskBackend, InvalidTask
from steady_queue.jobs.definition.options import check_options, explain_function, is_importable
from steady_queue.jobs.definition.task import SteadyQueueTask, TaskCall
from steady_queue.jobs.enqueueing.enqueue import aenqueue_calls, enqueue_calls
from steady_queue.jobs.results import results
from steady_queue.store.names import NAME_LENGTH, explain_unstorable
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from django.core.checks import CheckMessage

    from steady_queue.jobs.compat import Task
    from steady_queue.jobs.results.task_result import SteadyQueueResult
    from steady_queue.store.job import JobRecord
    from steady_queue.store.operations.actions.cancellation import CancelOutcome

P = ParamSpec("P")
T = TypeVar("T")

#: Functions that can be tasks, with and without context, where async tasks are supported and where not: an inspection
#: costs more than an enqueue.
_inspected: set[tuple[Callable[..., Any], bool, bool]] = set()
_ASYNC_RESULT = "instead of get_result(id) and result.refresh(), use: await aget_result(id) and await result.arefresh()"


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
    supports_metadata = True

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
        check_options(self, task)
        # The framework's rules for the function depend on this flag, which a subclass may change.
        inspected = (task.func, task.takes_context, self.supports_async_task)
        if inspected not in _inspected:
            self._validate_function(task)
            _inspected.add(inspected)

    def _validate_function(self, task: Task[..., Any]) -> None:
        try:
            super().validate_task(task)
            if not is_importable(task.func):
                raise InvalidTask("a worker could not import it")
            if isgeneratorfunction(task.func) or isasyncgenfunction(task.func):
                raise InvalidTask("a generator function cannot be a task, because a call of it runs nothing")
        except (InvalidTask, TypeError, ValueError, AttributeError) as error:
            raise InvalidTask(explain_function(task.func, error)) from None
        if reason := explain_unstorable(task.module_path, NAME_LENGTH):
            raise InvalidTask(f"the path of the task {reason}: {task.module_path!r:.100}")

    def enqueue(self, task: Task[P, T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> SteadyQueueResult[T]:
        try:
            return enqueue_calls(self, [TaskCall(task, tuple(args), kwargs)])[0]
        except SynchronousOnlyOperation:
            advice = f"instead of {task.name}.enqueue(...), use: await {task.name}.aenqueue(...)"
            raise refused_in_async_code(advice) from None

    async def aenqueue(self, task: Task[P, T], args: Sequence[Any], kwargs: Mapping[str, Any]) -> SteadyQueueResult[T]:
        return (await aenqueue_calls(self, [TaskCall(task, tuple(args), kwargs)]))[0]

    # -- results ------------------------------------------------------------------------------------------------------

    def get_result(self, result_id: str) -> SteadyQueueResult[Any]:
        job_id = results.parse_id(result_id)
        return _result_of(job_id, run_one(lambda sql: find_jobs(sql, [job_id]), _ASYNC_RESULT))

    async def aget_result(self, result_id: str) -> SteadyQueueResult[Any]:
        job_id = results.parse_id(result_id)
        found = await arun_one(lambda sql: find_jobs(sql, [job_id]), self.async_connection)
        return _result_of(job_id, found)

    def cancel(self, result_id: str, *, by: str = "", reason: str = "") -> CancelOutcome:
        """Cancel the task of this result: see `steady_queue.actions.cancel`."""
        return actions.cancel(result_id, by=by, reason=reason)

    async def acancel(self, result_id: str, *, by: str = "", reason: str = "") -> CancelOutcome:
        return await actions.acancel(result_id, by=by, reason=reason)

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        from steady_queue.checks import installation

        return installation.check_backend(self)


def _result_of(job_id: UUID, found: list[JobRecord]) -> SteadyQueueResult[Any]:
    if not found:
        raise results.no_result(job_id)
    return results.of_record(found[0])
