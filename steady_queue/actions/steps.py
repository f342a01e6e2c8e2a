"""The steps of each action, written once for its sync and its async form; see steady_queue.db.transactions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.transaction import TransactionManagementError

from steady_queue.actions.filters import DISCARDABLE
from steady_queue.db.transactions import AfterCommit
from steady_queue.errors import ArgumentError, DuplicateTask, JobIsRunning
from steady_queue.events import JobsDiscarded, JobsRetried, JobsRunNow, QueuePaused, QueueResumed, RetryRefused
from steady_queue.jobs.definition.task import TaskCall
from steady_queue.jobs.enqueueing.new_jobs import build_call
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.results.results import no_result, parse_id
from steady_queue.store.job import Status
from steady_queue.store.operations.actions import bulk_actions, corrections, queues
from steady_queue.store.operations.actions import job_actions as actions
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from uuid import UUID

    from steady_queue.db.transactions import Action, Scope, Steps
    from steady_queue.events import Event
    from steady_queue.jobs.compat import TaskResult
    from steady_queue.store.operations.actions.bulk_actions import JobFilter, Position, WindowResult
    from steady_queue.store.operations.actions.job_actions import ActionResult
    from steady_queue.store.statement import Operation

    TaskOrId = TaskResult[Any] | UUID | str
    #: `retry`, `discard` or `run_now` of the store.
    Change = Callable[..., Operation[ActionResult]]

#: Jobs in one transaction.
BATCH_ROWS = bulk_actions.WINDOW_ROWS
#: How often a task is looked up again that changes its status between the change and the look-up.
MAX_TRIES = 5

#: The statuses in which each change applies.
STATUSES: dict[Change, tuple[Status, ...]] = {
    actions.retry: (Status.FAILED,),
    actions.discard: DISCARDABLE,
    actions.run_now: (Status.SCHEDULED, Status.BLOCKED),
}
_EVENTS: dict[Change, type[JobsRetried | JobsRunNow]] = {actions.retry: JobsRetried, actions.run_now: JobsRunNow}


def retry_with(task: TaskOrId, call: TaskCall) -> Action[bool]:
    """Retry one task with the arguments of this call; False when it has not failed."""
    if not isinstance(call, TaskCall):
        raise TypeError(f"arguments must be a call of the task, task.bind(...), not {type(call).__name__}")
    job_id, new = job_id_of(task), build_call(call)

    def steps(scope: Scope) -> Steps[bool]:
        found = yield find_jobs(scope.sql, [job_id])
        if found and found[0].task_path != new.task_path:
            raise ArgumentError(
                f"the task {job_id} is {found[0].task_path}, which cannot be retried with arguments of {new.task_path}"
            )

        def build(scope: Scope) -> Operation[ActionResult]:
            return corrections.retry_with(
                scope.sql, job_id, new, limits_in_force, owns_transaction=scope.owns_transaction
            )

        return (yield from change_one(actions.retry, task, build)(scope))

    return steps


def change_one(
    change: Change, task: TaskOrId, build: Callable[[Scope], Operation[ActionResult]] | None = None
) -> Action[bool]:
    """Change one task; False when its status does not allow it. `build` replaces the operation of the change."""
    job_id = job_id_of(task)

    def steps(scope: Scope) -> Steps[bool]:
        for _ in range(MAX_TRIES):
            result: ActionResult = yield build(scope) if build else _operation(change, scope, [job_id])
            yield _after_commit(change, result)
            if result.ids:
                return True
            if result.displaced:
                other = str(result.displaced[job_id])
                message = f"the task {job_id} was not retried: the task {other} has its unique key"
                raise DuplicateTask(message, existing_ids=[other])
            found = yield find_jobs(scope.sql, [job_id])
            if not found:
                raise no_result(job_id)
            status = found[0].status
            if status is Status.CLAIMED:
                raise JobIsRunning(f"the task {job_id} is running")
            if scope.is_manual and status is Status.BLOCKED and change is actions.run_now:
                raise TransactionManagementError(
                    f"the task {job_id} is blocked: it gets a slot after the commit, of which nothing is known under "
                    "manual transaction management (set_autocommit(False)); use transaction.atomic(), or none"
                )
            # A task whose status allows the change has entered that status between the change and the look-up.
            if status not in STATUSES[change]:
                break
        return False

    return steps


def change_many(change: Change, tasks: Iterable[TaskOrId]) -> Action[list[str]]:
    """Change those of the tasks whose status allows it; returns their ids, in the order of `tasks`."""

    def steps(scope: Scope) -> Steps[list[str]]:
        done: list[str] = []
        ids = iter(dict.fromkeys(job_id_of(task) for task in tasks))
        while batch := list(islice(ids, BATCH_ROWS)):
            result: ActionResult = yield _operation(change, scope, batch)
            yield _after_commit(change, result)
            changed = set(result.ids)
            done.extend(str(id_) for id_ in batch if id_ in changed)
        return done

    return steps


def retry_where(job_filter: JobFilter) -> Action[int]:
    """Retry the failed tasks that match, window by window; returns how many."""

    def steps(scope: Scope) -> Steps[int]:
        count = 0
        position: Position | None = bulk_actions.Position()
        while position is not None:
            window: WindowResult = yield bulk_actions.retry_window(
                scope.sql, job_filter, position, limits=limits_in_force, owns_transaction=scope.owns_transaction
            )
            yield _after_commit(actions.retry, window.result)
            count += len(window.result.ids)
            position = window.next
        return count

    return steps


def discard_where(statuses: Iterable[Status], job_filter: JobFilter) -> Action[int]:
    """Discard the tasks with one of the statuses that match, window by window; returns how many."""

    def steps(scope: Scope) -> Steps[int]:
        count = 0
        for status in statuses:
            promoted: set[UUID] = set()
            position: Position | None = bulk_actions.Position()
            while position is not None:
                window: WindowResult = yield bulk_actions.discard_window(
                    scope.sql,
                    status,
                    job_filter,
                    position,
                    limits=limits_in_force,
                    spare=promoted,
                    owns_transaction=scope.owns_transaction,
                )
                yield _after_commit(actions.discard, window.result)
                promoted.update(window.result.promoted)
                count += len(window.result.ids)
                position = window.next
        return count

    return steps


def pause(queue: str) -> Action[bool]:
    def steps(scope: Scope) -> Steps[bool]:
        changed: bool = yield queues.pause(scope.sql, queue)
        yield AfterCommit(events=[QueuePaused(queue_name=queue, changed=changed)])
        return changed

    return steps


def resume(queue: str) -> Action[bool]:
    def steps(scope: Scope) -> Steps[bool]:
        changed: bool = yield queues.resume(scope.sql, queue)
        yield AfterCommit(wakes_workers=changed, events=[QueueResumed(queue_name=queue, changed=changed)])
        return changed

    return steps


def _operation(change: Change, scope: Scope, ids: Sequence[UUID]) -> Operation[ActionResult]:
    if scope.is_manual and change is actions.run_now:
        return actions.run_now(scope.sql, ids, limits_in_force, owns_transaction=False, blocked_too=False)
    return change(scope.sql, ids, limits_in_force, owns_transaction=scope.owns_transaction)


def _after_commit(change: Change, result: ActionResult) -> AfterCommit:
    return AfterCommit(result.after_commit, result.wakes_workers, list(_events(change, result)))


def _events(change: Change, result: ActionResult) -> Iterator[Event]:
    """The events of a change; none when it changed no task."""
    for job_id, other_id in result.displaced.items():
        yield RetryRefused(job_id=job_id, other_id=other_id)
    kind = _EVENTS.get(change)
    if kind is not None:
        if result.ids:
            yield kind(job_ids=result.ids, count=len(result.ids))
        return
    for table, ids in result.discarded_from.items():
        yield JobsDiscarded(job_ids=ids, count=len(ids), status=table.removesuffix("execution"))


def job_id_of(task: TaskOrId) -> UUID:
    """Return the id of a job; raises TaskResultDoesNotExist if it is not a UUID."""
    return parse_id(getattr(task, "id", task))
