"""What people do to tasks: retry, discard, run now, pause and resume. For code, the admin and the command line.

Each has an async form that begins with `a`. Sync forms join the caller's transaction; see errands.py. A task is named
by its TaskResult or its id.

    retry, discard, run_now                     one task; False when it does not stand where that means something
    retry_many, discard_many, run_now_many      several; returns the ids of those that it was done to
    retry_where, discard_where                  all that answer a description; returns how many
    clear_queue                                 all ready tasks of a queue; returns how many
    pause, resume                               a queue; returns whether that is new
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db.transaction import TransactionManagementError

from steady_queue.actions.accounts import account
from steady_queue.actions.filters import DISCARDABLE, a_queue, a_usable_queue, described, some_statuses
from steady_queue.db.transactions import arun, run
from steady_queue.errors import JobIsRunning
from steady_queue.events import QueuePaused, QueueResumed
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.results import parse_id
from steady_queue.store.job import Status
from steady_queue.store.operations import actions, bulk_actions, queues
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.db.transactions import Desk, Errand, Steps
    from steady_queue.jobs.compat import Task, TaskResult
    from steady_queue.store.operations.actions import ActionResult
    from steady_queue.store.operations.bulk_actions import JobFilter, Position, WindowResult
    from steady_queue.store.statement import Operation

    Named = TaskResult[Any] | UUID | str
    Described = Task[..., Any] | str | None
    ErrorName = type[BaseException] | str | None
    Revision = Callable[..., Operation[ActionResult]]

#: Jobs in one transaction.
BATCH = bulk_actions.WINDOW_ROWS
#: How often one task is looked for that moves on between two looks.
TRIES = 5


# -- one task ---------------------------------------------------------------------------------------------------------


def retry(task: Named) -> bool:
    """Run a failed task again as if it were new, and say whether it had failed.

    Raises JobIsRunning for one that runs, and TaskResultDoesNotExist for one that is not there; so do the next two.
    """
    return run(_one(actions.retry, task))


async def aretry(task: Named) -> bool:
    return await arun(_one(actions.retry, task))


def discard(task: Named) -> bool:
    """Delete a task that is ready, scheduled, blocked or failed; False when it has finished."""
    return run(_one(actions.discard, task))


async def adiscard(task: Named) -> bool:
    return await arun(_one(actions.discard, task))


def run_now(task: Named) -> bool:
    """Let a scheduled or blocked task run now; False when it is neither.

    A scheduled one that is limited still queues for a slot. A blocked one gets a slot beyond the limit; under manual
    transaction management (`set_autocommit(False)`) that is refused with TransactionManagementError.
    """
    return run(_one(actions.run_now, task))


async def arun_now(task: Named) -> bool:
    return await arun(_one(actions.run_now, task))


# -- several tasks ----------------------------------------------------------------------------------------------------


def retry_many(tasks: Iterable[Named]) -> list[str]:
    """Retry those of the tasks that have failed."""
    return run(_many(actions.retry, tasks))


async def aretry_many(tasks: Iterable[Named]) -> list[str]:
    return await arun(_many(actions.retry, tasks))


def discard_many(tasks: Iterable[Named]) -> list[str]:
    """Discard those of the tasks that neither run nor have finished."""
    return run(_many(actions.discard, tasks))


async def adiscard_many(tasks: Iterable[Named]) -> list[str]:
    return await arun(_many(actions.discard, tasks))


def run_now_many(tasks: Iterable[Named]) -> list[str]:
    """Run now those of the tasks that are scheduled or blocked."""
    return run(_many(actions.run_now, tasks))


async def arun_now_many(tasks: Iterable[Named]) -> list[str]:
    return await arun(_many(actions.run_now, tasks))


# -- all that answer a description ------------------------------------------------------------------------------------


def retry_where(
    *,
    queue: str | None = None,
    task: Described = None,
    exception: ErrorName = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> int:
    """Retry the failed tasks that answer the description, each once; in batches, so that it can be begun again.

    What is left out may be anything. `task` and `exception` are the thing itself or its path.
    """
    return run(_retry_where(described(queue, task, exception, failed_before, failed_after)))


async def aretry_where(
    *,
    queue: str | None = None,
    task: Described = None,
    exception: ErrorName = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> int:
    return await arun(_retry_where(described(queue, task, exception, failed_before, failed_after)))


def discard_where(
    *statuses: str,
    queue: str | None = None,
    task: Described = None,
    exception: ErrorName = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> int:
    """Discard the tasks with one of the statuses ("ready", "scheduled", "blocked", "failed") that answer the rest.

    Tasks that become ready because others were discarded stay.
    """
    which = described(queue, task, exception, failed_before, failed_after)
    return run(_discard_where(some_statuses(statuses, which), which))


async def adiscard_where(
    *statuses: str,
    queue: str | None = None,
    task: Described = None,
    exception: ErrorName = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> int:
    which = described(queue, task, exception, failed_before, failed_after)
    return await arun(_discard_where(some_statuses(statuses, which), which))


# -- queues -----------------------------------------------------------------------------------------------------------


def clear_queue(queue: str) -> int:
    """Discard all ready tasks of a queue; those that get their slots stay."""
    return run(_discard_where([Status.READY], described(a_queue(queue))))


async def aclear_queue(queue: str) -> int:
    return await arun(_discard_where([Status.READY], described(a_queue(queue))))


def pause(queue: str) -> bool:
    """Let workers take nothing from a queue; what runs goes on, and tasks may be enqueued."""
    return run(_pause(a_usable_queue(queue)))


async def apause(queue: str) -> bool:
    return await arun(_pause(a_usable_queue(queue)))


def resume(queue: str) -> bool:
    """Let workers take tasks from a queue again."""
    return run(_resume(a_queue(queue)))


async def aresume(queue: str) -> bool:
    return await arun(_resume(a_queue(queue)))


# -- the errands ------------------------------------------------------------------------------------------------------


def _one(revise: Revision, task: Named) -> Errand[bool]:
    job_id = _id_of(task)

    def errand(desk: Desk) -> Steps[bool]:
        for _ in range(TRIES):
            revised: ActionResult = yield _revision(revise, desk, [job_id])
            yield revised
            yield from account(revise, revised)
            if revised.ids:
                return True
            found = yield find_jobs(desk.sql, [job_id])
            if not found:
                raise TaskResultDoesNotExist(str(job_id))
            status = found[0].status
            if status is Status.CLAIMED:
                raise JobIsRunning(f"the task {job_id} is running")
            if desk.is_manual and status is Status.BLOCKED and revise is actions.run_now:
                raise TransactionManagementError(
                    f"the task {job_id} is blocked: it gets a slot after the commit, of which nothing is known under "
                    "manual transaction management (set_autocommit(False)); use transaction.atomic(), or none"
                )
            # What stands where it could be done has moved there between the two looks.
            if status not in _MEANT_FOR[revise]:
                break
        return False

    return errand


#: The tasks that each action means something for.
_MEANT_FOR: dict[Revision, tuple[Status, ...]] = {
    actions.retry: (Status.FAILED,),
    actions.discard: DISCARDABLE,
    actions.run_now: (Status.SCHEDULED, Status.BLOCKED),
}


def _revision(revise: Revision, desk: Desk, ids: Sequence[UUID]) -> Operation[ActionResult]:
    if desk.is_manual and revise is actions.run_now:
        return actions.run_now(desk.sql, ids, limits_in_force, promoting=False, blocked_too=False)
    return revise(desk.sql, ids, limits_in_force, promoting=desk.promoting)


def _many(revise: Revision, tasks: Iterable[Named]) -> Errand[list[str]]:
    def errand(desk: Desk) -> Steps[list[str]]:
        done: list[str] = []
        ids = iter(dict.fromkeys(_id_of(task) for task in tasks))
        while batch := list(islice(ids, BATCH)):
            revised: ActionResult = yield _revision(revise, desk, batch)
            yield revised
            yield from account(revise, revised)
            changed = set(revised.ids)
            done.extend(str(id_) for id_ in batch if id_ in changed)
        return done

    return errand


def _retry_where(which: JobFilter) -> Errand[int]:
    def errand(desk: Desk) -> Steps[int]:
        count = 0
        place: Position | None = bulk_actions.Position()
        while place is not None:
            swept: WindowResult = yield bulk_actions.retry_window(
                desk.sql, which, place, limits=limits_in_force, promoting=desk.promoting
            )
            yield swept.result
            yield from account(actions.retry, swept.result)
            count += len(swept.result.ids)
            place = swept.next
        return count

    return errand


def _discard_where(statuses: Iterable[Status], which: JobFilter) -> Errand[int]:
    def errand(desk: Desk) -> Steps[int]:
        count = 0
        for status in statuses:
            promoted: set[UUID] = set()
            place: Position | None = bulk_actions.Position()
            while place is not None:
                swept: WindowResult = yield bulk_actions.discard_window(
                    desk.sql, status, which, place, limits=limits_in_force, spare=promoted, promoting=desk.promoting
                )
                yield swept.result
                yield from account(actions.discard, swept.result)
                promoted.update(swept.result.promoted)
                count += len(swept.result.ids)
                place = swept.next
        return count

    return errand


def _pause(queue: str) -> Errand[bool]:
    def errand(desk: Desk) -> Steps[bool]:
        changed: bool = yield queues.pause(desk.sql, queue)
        yield QueuePaused(queue_name=queue, changed=changed)
        return changed

    return errand


def _resume(queue: str) -> Errand[bool]:
    def errand(desk: Desk) -> Steps[bool]:
        changed: bool = yield queues.resume(desk.sql, queue)
        if changed:
            yield actions.ActionResult([], wakes_workers=True)
        yield QueueResumed(queue_name=queue, changed=changed)
        return changed

    return errand


def _id_of(task: Named) -> UUID:
    return parse_id(getattr(task, "id", task))
