"""The steps of cancel, written once for its sync and its async form; see steady_queue.db.transactions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

from steady_queue.actions.filters import build_filter
from steady_queue.actions.steps import BATCH_ROWS, MAX_TRIES, job_id_of
from steady_queue.db.notify import CANCELLATIONS
from steady_queue.db.transactions import AfterCommit
from steady_queue.errors import StoreConflict
from steady_queue.events import JobsCancelled, JobsCancelRequested
from steady_queue.jobs.registry import limits_in_force
from steady_queue.jobs.results.results import no_result
from steady_queue.store.job import ENDED, CancelRequest, Status
from steady_queue.store.names import explain_unstorable
from steady_queue.store.operations.actions import bulk_actions
from steady_queue.store.operations.actions.cancellation import CancelOutcome, cancel
from steady_queue.store.operations.results import find_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from uuid import UUID

    from steady_queue.actions.steps import TaskOrId
    from steady_queue.db.transactions import Action, Scope, Steps
    from steady_queue.events import Event
    from steady_queue.jobs.compat import Task
    from steady_queue.store.operations.actions.bulk_actions import CancelledWindow, JobFilter, Position
    from steady_queue.store.operations.actions.cancellation import Cancelled

#: Characters of `by` and of `reason`.
TEXT_LENGTH = 1000
#: The statuses of tasks that can be cancelled by their names, in the order in which jobs move through them.
CANCELLABLE = {
    "scheduled": Status.SCHEDULED,
    "blocked": Status.BLOCKED,
    "ready": Status.READY,
    "running": Status.CLAIMED,
}


class CancelOptions(TypedDict, total=False):
    """The keyword arguments of `cancel_where`; an option that is left out matches every task."""

    queue: str | None
    task: Task[..., Any] | str | None
    by: str
    reason: str


def build_request(by: str = "", reason: str = "") -> CancelRequest:
    """Return who cancels tasks and why; raises ValueError if that cannot be stored."""
    for name, text in (("by", by), ("reason", reason)):
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a string, not {type(text).__name__}")
        if problem := explain_unstorable(text, TEXT_LENGTH):
            raise ValueError(f"{name} {problem}")
    return CancelRequest(by, reason)


def cancel_one(task: TaskOrId, request: CancelRequest) -> Action[CancelOutcome]:
    """Cancel one task."""
    job_id = job_id_of(task)

    def steps(scope: Scope) -> Steps[CancelOutcome]:
        outcomes = yield from _cancel_batch(scope, [job_id], request)
        if job_id not in outcomes:
            raise no_result(job_id)
        return outcomes[job_id]

    return steps


def cancel_many(tasks: Iterable[TaskOrId], request: CancelRequest) -> Action[list[str]]:
    """Cancel those of the tasks that have not ended; returns their ids, in the order of `tasks`."""

    def steps(scope: Scope) -> Steps[list[str]]:
        outcomes = yield from cancel_each(tasks, request)(scope)
        return [str(id_) for id_, outcome in outcomes.items() if outcome]

    return steps


def cancel_each(tasks: Iterable[TaskOrId], request: CancelRequest) -> Action[dict[UUID, CancelOutcome]]:
    """Cancel tasks; returns what was done with each of them that exists, in the order of `tasks`."""

    def steps(scope: Scope) -> Steps[dict[UUID, CancelOutcome]]:
        done: dict[UUID, CancelOutcome] = {}
        ids = iter(dict.fromkeys(job_id_of(task) for task in tasks))
        while batch := list(islice(ids, BATCH_ROWS)):
            outcomes = yield from _cancel_batch(scope, batch, request)
            done.update((id_, outcomes[id_]) for id_ in batch if id_ in outcomes)
        return done

    return steps


def cancel_where(
    statuses: Sequence[str],
    *,
    queue: str | None = None,
    task: Task[..., Any] | str | None = None,
    by: str = "",
    reason: str = "",
) -> Action[int]:
    """Cancel the tasks with one of the statuses that match, window by window; returns how many."""
    request = build_request(by, reason)
    job_filter = build_filter(queue, task)
    wanted = parse_statuses(statuses)

    def steps(scope: Scope) -> Steps[int]:
        count = 0
        for status in wanted:
            count += yield from _cancel_status(scope, status, request, job_filter)
        return count

    return steps


def parse_statuses(names: Sequence[str]) -> list[Status]:
    """Return the statuses of the tasks to be cancelled, in the order in which jobs move through them."""
    if unknown := [name for name in names if name not in CANCELLABLE]:
        raise ValueError(f"only {', '.join(CANCELLABLE)} tasks can be cancelled, not {', '.join(map(str, unknown))}")
    if not names:
        raise ValueError(f"say which tasks to cancel: {', '.join(CANCELLABLE)}")
    return [status for name, status in CANCELLABLE.items() if name in names]


def _cancel_status(scope: Scope, status: Status, request: CancelRequest, job_filter: JobFilter) -> Steps[int]:
    count = 0
    promoted: set[UUID] = set()
    position: Position | None = bulk_actions.Position()
    while position is not None:
        window: CancelledWindow = yield bulk_actions.cancel_window(
            scope.sql,
            status,
            request,
            job_filter,
            position,
            limits=limits_in_force,
            spare=promoted,
            owns_transaction=scope.owns_transaction,
        )
        yield _after_commit(window.result, request)
        promoted.update(window.result.promoted)
        count += len(window.result.ended) + len(window.result.requested)
        position = window.next
    return count


def _cancel_batch(scope: Scope, ids: Sequence[UUID], request: CancelRequest) -> Steps[dict[UUID, CancelOutcome]]:
    """Cancel these jobs; returns what was done with each of them that exists."""
    outcomes: dict[UUID, CancelOutcome] = {}
    left = list(ids)
    for _ in range(MAX_TRIES):
        result: Cancelled = yield cancel(
            scope.sql, left, request, limits_in_force, owns_transaction=scope.owns_transaction
        )
        yield _after_commit(result, request)
        outcomes.update(dict.fromkeys(result.ended, CancelOutcome.CANCELLED))
        outcomes.update(dict.fromkeys(result.requested, CancelOutcome.REQUESTED))
        left = [id_ for id_ in left if id_ not in outcomes]
        if not left:
            return outcomes
        statuses = {job.id: job.status for job in (yield find_jobs(scope.sql, left))}
        ended = [id_ for id_, status in statuses.items() if status in ENDED]
        outcomes.update(dict.fromkeys(ended, CancelOutcome.ALREADY_ENDED))
        # The others were released, or claimed, between two look-ups.
        left = [id_ for id_ in left if id_ in statuses and id_ not in outcomes]
        if not left:
            return outcomes
    raise StoreConflict(f"the status of the task {left[0]} changes all the time: cancel it again")


def _after_commit(result: Cancelled, request: CancelRequest) -> AfterCommit:
    topic = CANCELLATIONS if result.requested else None
    return AfterCommit(result.after_commit, result.wakes_workers, list(_events(result, request)), topic)


def _events(result: Cancelled, request: CancelRequest) -> Iterator[Event]:
    who: dict[str, Any] = request._asdict()
    if result.ended:
        yield JobsCancelled(job_ids=result.ended, count=len(result.ended), **who)
    if result.requested:
        yield JobsCancelRequested(job_ids=result.requested, count=len(result.requested), **who)
