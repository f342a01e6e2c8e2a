"""A job as the framework's TaskResult, built when it is accessed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from steady_queue import arguments
from steady_queue.jobs.compat import (
    InvalidTask,
    InvalidTaskBackend,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from steady_queue.jobs.json_values import load_metadata
from steady_queue.jobs.registry import registry
from steady_queue.jobs.results.attempt_errors import (
    as_django_shows,
    lines_of,
    load_errors,
    of_attempt,
    unreadable_error,
)
from steady_queue.jobs.results.old_arguments import load_old_arguments
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState, state_of, state_of_failure
from steady_queue.jobs.running.reports import load_log, load_progress
from steady_queue.store.ids import parse_uuid
from steady_queue.store.job import JobRecord, Status
from steady_queue.store.outcome import Completed, Finished

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.jobs.compat import Task, TaskError
    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Failed, Retried

_STATUS = {
    Status.READY: TaskResultStatus.READY,
    Status.SCHEDULED: TaskResultStatus.READY,
    Status.BLOCKED: TaskResultStatus.READY,
    Status.CLAIMED: TaskResultStatus.RUNNING,
    Status.FAILED: TaskResultStatus.FAILED,
    Status.FINISHED: TaskResultStatus.SUCCESSFUL,
}
_TIMES = tuple(name for name in JobRecord._fields if name.endswith("_at"))


def parse_id(result_id: object) -> UUID:
    """Return the job id of a result's id; raises TaskResultDoesNotExist if it is not a UUID."""
    job_id = parse_uuid(result_id)
    if job_id is None:
        raise TaskResultDoesNotExist(f"no task has the id {str(result_id)!r:.100}: it is not a UUID")
    return job_id


def no_result(job_id: UUID) -> TaskResultDoesNotExist:
    """The error for the id of a job that does not exist."""
    return TaskResultDoesNotExist(
        f"no task has the id '{job_id}'; finished tasks are deleted after clear_finished_jobs_after"
    )


def of_new(task: Task[..., Any], job: NewJob) -> SteadyQueueResult[Any]:
    """Return the result of a new job, with its arguments as stored: the caller may have changed them since."""
    args, kwargs = arguments.view_text(job.arguments)
    return SteadyQueueResult(
        task=task,
        id=str(job.id),
        status=TaskResultStatus.READY,
        enqueued_at=as_django_shows(job.enqueued_at),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=job.backend,
        errors=[],
        worker_ids=[],
        state=_new_state(job),
        metadata=load_metadata(job.metadata),
    )


def _new_state(job: NewJob) -> TaskState:
    """Return the state of a new job as far as it is known: by this machine's clock, and before slots are granted."""
    if job.scheduled_at is not None and job.scheduled_at > datetime.now(UTC):
        return TaskState.SCHEDULED
    return TaskState.READY if job.concurrency_key is None else TaskState.BLOCKED


def of_record(record: JobRecord) -> SteadyQueueResult[Any]:
    """Return the result of a job that was read from the database.

    For each column that cannot be read, `errors` has an entry. A time that cannot be read is None: Django's connection
    to SQLite returns None for it, as for a missing time.
    """
    unreadable: list[TaskError] = []
    read = partial(_read_column, unreadable)
    args, kwargs = read("arguments", arguments.view_text, record.arguments, otherwise=([], {}))
    times = {name: as_django_shows(getattr(record, name)) for name in _TIMES}
    running = record.status is Status.CLAIMED
    worker_ids = read("worker_ids", lines_of, record.worker_ids, otherwise=[])
    metadata = read("metadata", load_metadata, record.metadata, otherwise={})
    progress = read("progress", load_progress, record.progress)
    errors = read("errors", load_errors, record.errors, otherwise=[])
    value = None
    if record.return_value is not None:
        value = read("return_value", arguments.load_result, record.return_value)
    result: SteadyQueueResult[Any] = SteadyQueueResult(
        task=_task_of(record, times["scheduled_at"]),
        id=str(record.id),
        status=_STATUS[record.status],
        enqueued_at=times["enqueued_at"],
        started_at=times["started_at"] or times["claimed_at"],
        finished_at=times["finished_at"] or times["failed_at"],
        last_attempted_at=times["claimed_at"] or times["last_attempted_at"],
        args=args,
        kwargs=kwargs,
        backend=record.backend,
        errors=[*errors, *unreadable],
        worker_ids=[*worker_ids, record.claimed_by or "unknown"] if running else worker_ids,
        state=state_of(record),
        attempt_count=record.attempts + running,
        retries=record.retries,
        metadata=metadata,
        progress=progress,
        log=load_log(record.log),
        old_arguments=read("old_arguments", load_old_arguments, record.old_arguments, otherwise=[]),
    )
    if value is not None:
        object.__setattr__(result, "_return_value", value)
    return result


def of_claim(claim: Claim, task: Task[..., Any], process_name: str) -> SteadyQueueResult[Any]:
    """Return the result of a running job, as its own task sees it."""
    args, kwargs = arguments.view_text(claim.arguments)
    return SteadyQueueResult(
        task=task,
        id=str(claim.job_id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=as_django_shows(claim.enqueued_at),
        started_at=as_django_shows(claim.started_at or claim.claimed_at),
        finished_at=None,
        last_attempted_at=as_django_shows(claim.claimed_at),
        args=args,
        kwargs=kwargs,
        backend=claim.backend,
        errors=load_errors(claim.errors),
        worker_ids=[*lines_of(claim.worker_ids), process_name],
        state=TaskState.RUNNING,
        attempt_count=claim.attempts + 1,
        retries=claim.retries,
        metadata=load_metadata(claim.metadata),
    )


def conclude(result: TaskResult[Any], outcome: Finished | Completed | Failed | Retried) -> TaskResult[Any]:
    """Write the outcome into the result of a running job, in place, as the framework's own backends do."""
    object.__setattr__(result, "finished_at", timezone.now())
    if isinstance(outcome, (Finished, Completed)):
        value = None if outcome.value is None else arguments.load_result(outcome.value)
        object.__setattr__(result, "_return_value", value)
        status, state = TaskResultStatus.SUCCESSFUL, TaskState.FINISHED
    else:
        result.errors.append(of_attempt(outcome.claim, outcome.error, result.worker_ids[-1]))
        status, state = TaskResultStatus.FAILED, state_of_failure(outcome)
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "state", state)
    return result


def _task_of(record: JobRecord, run_after: datetime | None) -> Task[..., Any]:
    task = registry.resolve(record.task_path)
    options: dict[str, Any] = {
        "priority": record.priority,
        "queue_name": record.queue_name,
        "backend": record.backend,
        "run_after": run_after,
    }
    try:
        return replace(task, **options)
    except (InvalidTask, InvalidTaskBackend):
        # The settings have changed since: the queue or the backend no longer exists, but the result can still be read.
        return task


def _read_column(
    unreadable: list[TaskError], column: str, read: Callable[[Any], Any], stored: Any, otherwise: Any = None
) -> Any:
    """Return the value of a column; if it cannot be read, add an entry to `unreadable` and return `otherwise`."""
    try:
        return read(stored)
    except Exception as error:  # another program may have written any value
        unreadable.append(unreadable_error(f"the column {column!r} of the task cannot be read: {error}"))
        return otherwise
