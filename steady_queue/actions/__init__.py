"""Manual actions on tasks and queues, for code, the admin and the command line.

Each action has an async form that begins with `a`. The sync forms join the caller's transaction: see
steady_queue.db.transactions. A task is given as its TaskResult or its id.

    retry, discard, run_now                     one task; returns False when the task's status does not allow it
    retry_many, discard_many, run_now_many      several tasks; returns the ids of those that were changed
    retry_where, discard_where                  all tasks that match a filter; returns how many
    cancel                                      one task; returns a CancelOutcome
    cancel_many, cancel_where                   as above; the tasks are ended, or their processes asked to stop them
    clear_queue                                 all ready tasks of a queue; returns how many
    pause, resume                               a queue; returns whether that changed anything
    stop_process                                a process; returns the id of the request
    request_stack                               where a running task is now; returns the id of the request
    read_reply                                  what the process has replied; returns a ProcessReply, or None so far

Modules:

    steps.py           what each action does, written once for both forms
    cancellation.py    the same for cancel
    process_requests.py    the same for requests to processes
    outcomes.py        an action on several tasks, with what came of it for each
    filters.py         checks what the caller passes, and builds the store's filters
    cleanup.py         deletes tasks that finished or failed long ago
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.actions import cancellation, process_requests, steps
from steady_queue.actions.filters import build_filter, check_queue_name, check_usable_queue_name, parse_statuses
from steady_queue.actions.process_requests import ProcessReply
from steady_queue.db.transactions import arun, run
from steady_queue.store.job import Status
from steady_queue.store.operations.actions import job_actions as actions
from steady_queue.store.operations.actions.cancellation import CancelOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack
    from uuid import UUID

    from steady_queue.actions.cancellation import CancelOptions
    from steady_queue.actions.filters import FilterOptions
    from steady_queue.actions.steps import TaskOrId
    from steady_queue.jobs.definition.task import TaskCall

__all__ = [
    "CancelOutcome",
    "ProcessReply",
    "acancel",
    "acancel_many",
    "acancel_where",
    "aclear_queue",
    "adiscard",
    "adiscard_many",
    "adiscard_where",
    "apause",
    "aread_reply",
    "arequest_stack",
    "aresume",
    "aretry",
    "aretry_many",
    "aretry_where",
    "arun_now",
    "arun_now_many",
    "astop_process",
    "cancel",
    "cancel_many",
    "cancel_where",
    "clear_queue",
    "discard",
    "discard_many",
    "discard_where",
    "pause",
    "read_reply",
    "request_stack",
    "resume",
    "retry",
    "retry_many",
    "retry_where",
    "run_now",
    "run_now_many",
    "stop_process",
]


# -- one task ---------------------------------------------------------------------------------------------------------


def retry(task: TaskOrId, *, arguments: TaskCall | None = None) -> bool:
    """Run a failed task again as if it were new; returns whether it had failed.

    `arguments=send.bind("ada@example.com")` replaces the arguments of the task, which must be `send`. They are checked
    and stored as if they were enqueued now, and the old ones stay readable in `result.old_arguments`.

    `retry`, `discard` and `run_now` raise JobIsRunning for a task that is running, and TaskResultDoesNotExist for one
    that does not exist.
    """
    return run(steps.change_one(actions.retry, task) if arguments is None else steps.retry_with(task, arguments))


async def aretry(task: TaskOrId, *, arguments: TaskCall | None = None) -> bool:
    return await arun(steps.change_one(actions.retry, task) if arguments is None else steps.retry_with(task, arguments))


def discard(task: TaskOrId) -> bool:
    """Delete a task that is ready, scheduled, blocked or failed; returns False when it has finished."""
    return run(steps.change_one(actions.discard, task))


async def adiscard(task: TaskOrId) -> bool:
    return await arun(steps.change_one(actions.discard, task))


def run_now(task: TaskOrId) -> bool:
    """Run a scheduled or blocked task now; returns False when it is neither.

    A scheduled task with a concurrency limit still waits for a slot. A blocked task gets a slot beyond the limit; under
    manual transaction management (`set_autocommit(False)`) that is refused with TransactionManagementError.
    """
    return run(steps.change_one(actions.run_now, task))


async def arun_now(task: TaskOrId) -> bool:
    return await arun(steps.change_one(actions.run_now, task))


# -- several tasks ----------------------------------------------------------------------------------------------------


def retry_many(tasks: Iterable[TaskOrId]) -> list[str]:
    """Retry those of the tasks that have failed."""
    return run(steps.change_many(actions.retry, tasks))


async def aretry_many(tasks: Iterable[TaskOrId]) -> list[str]:
    return await arun(steps.change_many(actions.retry, tasks))


def discard_many(tasks: Iterable[TaskOrId]) -> list[str]:
    """Discard those of the tasks that are neither running nor finished."""
    return run(steps.change_many(actions.discard, tasks))


async def adiscard_many(tasks: Iterable[TaskOrId]) -> list[str]:
    return await arun(steps.change_many(actions.discard, tasks))


def run_now_many(tasks: Iterable[TaskOrId]) -> list[str]:
    """Run now those of the tasks that are scheduled or blocked."""
    return run(steps.change_many(actions.run_now, tasks))


async def arun_now_many(tasks: Iterable[TaskOrId]) -> list[str]:
    return await arun(steps.change_many(actions.run_now, tasks))


# -- all tasks that match a filter ------------------------------------------------------------------------------------


def retry_where(**options: Unpack[FilterOptions]) -> int:
    """Retry the failed tasks that match the filter, each once; in batches, so that an interrupted call can be repeated.

    Options: `queue`, `task` and `exception` (the object itself or its dotted path), `failed_before`, `failed_after`.
    An option that is left out matches every task.
    """
    return run(steps.retry_where(build_filter(**options)))


async def aretry_where(**options: Unpack[FilterOptions]) -> int:
    return await arun(steps.retry_where(build_filter(**options)))


def discard_where(*statuses: str, **options: Unpack[FilterOptions]) -> int:
    """Discard the tasks with one of the statuses ("ready", "scheduled", "blocked", "failed") that match the filter.

    The options are those of `retry_where`; the last three apply to failed tasks only. Tasks that become ready because
    other tasks were discarded are kept.
    """
    job_filter = build_filter(**options)
    return run(steps.discard_where(parse_statuses(statuses, job_filter), job_filter))


async def adiscard_where(*statuses: str, **options: Unpack[FilterOptions]) -> int:
    job_filter = build_filter(**options)
    return await arun(steps.discard_where(parse_statuses(statuses, job_filter), job_filter))


# -- cancel -----------------------------------------------------------------------------------------------------------


def cancel(task: TaskOrId, *, by: str = "", reason: str = "") -> CancelOutcome:
    """Cancel a task. One that waits ends at once, one that runs is stopped where it runs; neither is retried.

    `by` and `reason` are stored with the error of the task. The outcome is true unless the task has ended before, which
    changes nothing. Raises TaskResultDoesNotExist for a task that does not exist.
    """
    return run(cancellation.cancel_one(task, cancellation.build_request(by, reason)))


async def acancel(task: TaskOrId, *, by: str = "", reason: str = "") -> CancelOutcome:
    return await arun(cancellation.cancel_one(task, cancellation.build_request(by, reason)))


def cancel_many(tasks: Iterable[TaskOrId], *, by: str = "", reason: str = "") -> list[str]:
    """Cancel those of the tasks that have not ended."""
    return run(cancellation.cancel_many(tasks, cancellation.build_request(by, reason)))


async def acancel_many(tasks: Iterable[TaskOrId], *, by: str = "", reason: str = "") -> list[str]:
    return await arun(cancellation.cancel_many(tasks, cancellation.build_request(by, reason)))


def cancel_where(*statuses: str, **options: Unpack[CancelOptions]) -> int:
    """Cancel the tasks with one of the statuses ("scheduled", "blocked", "ready", "running") that match the filter.

    Options: `queue`, `task` (the object itself or its dotted path), `by`, `reason`. In batches, so that an interrupted
    call can be repeated. Tasks that become ready because other tasks were cancelled are kept.
    """
    return run(cancellation.cancel_where(statuses, **options))


async def acancel_where(*statuses: str, **options: Unpack[CancelOptions]) -> int:
    return await arun(cancellation.cancel_where(statuses, **options))


# -- queues -----------------------------------------------------------------------------------------------------------


def clear_queue(queue: str) -> int:
    """Discard all ready tasks of a queue; tasks that get the freed slots are kept."""
    return run(steps.discard_where([Status.READY], build_filter(check_queue_name(queue))))


async def aclear_queue(queue: str) -> int:
    return await arun(steps.discard_where([Status.READY], build_filter(check_queue_name(queue))))


def pause(queue: str) -> bool:
    """Stop workers from claiming tasks of a queue; running tasks go on, and tasks can still be enqueued."""
    return run(steps.pause(check_usable_queue_name(queue)))


async def apause(queue: str) -> bool:
    return await arun(steps.pause(check_usable_queue_name(queue)))


def resume(queue: str) -> bool:
    """Let workers claim tasks of a paused queue again."""
    return run(steps.resume(check_queue_name(queue)))


async def aresume(queue: str) -> bool:
    return await arun(steps.resume(check_queue_name(queue)))


# -- processes --------------------------------------------------------------------------------------------------------


def stop_process(process_id: UUID | str, by: str = "") -> str:
    """Ask a process, on any machine, to stop as after the signal TERM; returns the id of the request.

    A supervisor stops with its children, and a process of the command with `--async` exits. A child of a supervisor is
    replaced: its supervisor starts another one at once. In a web server or a script only the runtime stops, as at the
    shutdown. `by` is who asked for it. Raises UnknownProcess if no process has this id.
    """
    return run(process_requests.stop_process(process_id, by))


async def astop_process(process_id: UUID | str, by: str = "") -> str:
    return await arun(process_requests.stop_process(process_id, by))


def request_stack(task: TaskOrId, by: str = "") -> str:
    """Ask the process that runs a task where the task is at this moment; returns the id of the request.

    Raises JobIsNotRunning if no process runs the task, and TaskResultDoesNotExist if the task does not exist.
    """
    return run(process_requests.request_stack(task, by))


async def arequest_stack(task: TaskOrId, by: str = "") -> str:
    return await arun(process_requests.request_stack(task, by))


def read_reply(request_id: UUID | str) -> ProcessReply | None:
    """Return what the process has replied to a request; None if it has not yet, and never will if it is dead.

    Raises UnknownRequest if there is no such request: requests and replies are deleted after 10 minutes.
    """
    return run(process_requests.read_reply(request_id))


async def aread_reply(request_id: UUID | str) -> ProcessReply | None:
    return await arun(process_requests.read_reply(request_id))
