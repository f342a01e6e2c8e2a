"""The state of a task, from its row and the one row of another table that is its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import OuterRef, Subquery

from steady_queue.db.aliases import queue_alias
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.models import BlockedExecution, ClaimedExecution, FailedExecution, Job, ScheduledExecution
from steady_queue.monitoring.states import JobState
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from django.db.models import Model

#: The classes of errors of a task whose process was lost, as they are stored.
LOST_CLASSES = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (ProcessExitError, ProcessPrunedError, ProcessMissingError)
)
_KINDS: dict[int, JobState] = {
    FailureKind.FAILED: JobState.FAILED,
    FailureKind.EXHAUSTED: JobState.EXHAUSTED,
    FailureKind.CANCELLED: JobState.CANCELLED,
    FailureKind.EXPIRED: JobState.EXPIRED,
}


def column_of(model: type[Model], column: str) -> Subquery:
    """A column of the row that is the state of a job, in a query for jobs.

    Not a join: for a page of jobs, PostgreSQL would read the whole table of the state.
    """
    rows = model._default_manager.filter(job_id=OuterRef("id"))
    return Subquery(rows.values(column)[:1])


#: What `find_state` needs: columns of the job, and those of its state, to be annotated.
JOB_COLUMNS = ("finished_at", "retries")
STATE_COLUMNS: dict[str, Any] = {
    "failed_kind": column_of(FailedExecution, "kind"),
    "exception_class": column_of(FailedExecution, "exception_class"),
    "claimed_at": column_of(ClaimedExecution, "claimed_at"),
    "due_at": column_of(ScheduledExecution, "scheduled_at"),
    "blocked_key": column_of(BlockedExecution, "concurrency_key"),
}


def read_states(ids: Iterable[UUID]) -> dict[UUID, JobState]:
    """Return the states of those tasks that are stored, in one query."""
    wanted = list(ids)
    if not wanted:
        return {}
    jobs = Job.objects.using(queue_alias()).filter(id__in=wanted)
    return {row["id"]: find_state(row) for row in jobs.values("id", *JOB_COLUMNS, **STATE_COLUMNS)}


def find_state(stored: Mapping[str, Any]) -> JobState:
    """Return the state of a job with these columns. A job that is not in another state is ready."""
    if stored["finished_at"] is not None:
        return JobState.FINISHED
    kind = stored["failed_kind"]
    if kind is not None:
        if kind == FailureKind.FAILED and stored["exception_class"] in LOST_CLASSES:
            return JobState.LOST
        # A newer version may have stored a kind that this one lacks.
        return _KINDS.get(kind, JobState.FAILED)
    if stored["claimed_at"] is not None:
        return JobState.RUNNING
    if stored["blocked_key"] is not None:
        return JobState.BLOCKED
    if stored["due_at"] is not None:
        return JobState.RETRYING if stored["retries"] else JobState.SCHEDULED
    return JobState.READY
