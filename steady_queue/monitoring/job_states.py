"""The states of tasks that are known by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.db.models import OuterRef, Subquery

from steady_queue.db.aliases import queue_alias
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.models import (
    BlockedExecution,
    ClaimedExecution,
    FailedExecution,
    Job,
    ReadyExecution,
    ScheduledExecution,
)
from steady_queue.monitoring.states import JobState
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

    from django.db.models import Model

#: The classes of errors of a task whose process was lost, as they are stored.
LOST_CLASSES = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (ProcessExitError, ProcessPrunedError, ProcessMissingError)
)
_KINDS: dict[int, JobState] = {
    FailureKind.EXHAUSTED: JobState.EXHAUSTED,
    FailureKind.CANCELLED: JobState.CANCELLED,
    FailureKind.EXPIRED: JobState.EXPIRED,
}


def _of_state(model: type[Model], column: str) -> Subquery:
    """A column of the row that is the state of a job. Not a join: PostgreSQL would read the whole table."""
    return Subquery(model._default_manager.filter(job_id=OuterRef("id")).values(column)[:1])


#: In the order of `_Columns`.
_STATE_COLUMNS = {
    "claimed_at": _of_state(ClaimedExecution, "claimed_at"),
    "failed_kind": _of_state(FailedExecution, "kind"),
    "exception_class": _of_state(FailedExecution, "exception_class"),
    "ready_priority": _of_state(ReadyExecution, "priority"),
    "blocked_priority": _of_state(BlockedExecution, "priority"),
    "due_at": _of_state(ScheduledExecution, "scheduled_at"),
}


class _Columns(NamedTuple):
    id: UUID
    finished_at: datetime | None
    retries: int
    claimed_at: datetime | None
    kind: int | None
    exception_class: str | None
    ready_priority: int | None
    blocked_priority: int | None
    scheduled_at: datetime | None


def read_states(ids: Iterable[UUID]) -> dict[UUID, JobState]:
    """Return the states of those tasks that are stored, in one query."""
    wanted = list(ids)
    if not wanted:
        return {}
    jobs = Job.objects.using(queue_alias()).filter(id__in=wanted).annotate(**_STATE_COLUMNS)
    rows = jobs.values_list("id", "finished_at", "retries", *_STATE_COLUMNS)
    states = ((row[0], _find_state(_Columns(*row))) for row in rows)
    return {id_: state for id_, state in states if state is not None}


def _find_state(row: _Columns) -> JobState | None:
    if row.claimed_at is not None:
        return JobState.RUNNING
    if row.kind is not None:
        if row.kind == FailureKind.FAILED and row.exception_class in LOST_CLASSES:
            return JobState.LOST
        return _KINDS.get(row.kind, JobState.FAILED)
    if row.ready_priority is not None:
        return JobState.READY
    if row.blocked_priority is not None:
        return JobState.BLOCKED
    if row.scheduled_at is not None:
        return JobState.RETRYING if row.retries else JobState.SCHEDULED
    return None if row.finished_at is None else JobState.FINISHED
