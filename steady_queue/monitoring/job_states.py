"""The states of tasks that are known by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.db.aliases import queue_alias
from steady_queue.errors import ProcessExitError, ProcessMissingError, ProcessPrunedError
from steady_queue.models import Job
from steady_queue.monitoring.states import JobState
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from uuid import UUID

#: The classes of errors of a task whose process was lost, as they are stored.
LOST_CLASSES = tuple(
    f"{kind.__module__}.{kind.__qualname__}" for kind in (ProcessExitError, ProcessPrunedError, ProcessMissingError)
)
_KINDS = {
    FailureKind.EXHAUSTED: JobState.EXHAUSTED,
    FailureKind.CANCELLED: JobState.CANCELLED,
    FailureKind.EXPIRED: JobState.EXPIRED,
}


class _Columns(NamedTuple):
    id: UUID
    finished_at: datetime | None
    attempts: int
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
    rows = (
        Job.objects.using(queue_alias())
        .filter(id__in=wanted)
        .values_list(
            "id",
            "finished_at",
            "attempts",
            "claimed_execution__claimed_at",
            "failed_execution__kind",
            "failed_execution__exception_class",
            "ready_execution__priority",
            "blocked_execution__priority",
            "scheduled_execution__scheduled_at",
        )
    )
    states = ((row[0], _find_state(_Columns(*row))) for row in rows)
    return {id_: state for id_, state in states if state is not None}


def _find_state(row: _Columns) -> JobState | None:
    if row.claimed_at is not None:
        return JobState.RUNNING
    if row.kind is not None:
        if row.kind == FailureKind.FAILED and row.exception_class in LOST_CLASSES:
            return JobState.LOST
        return _KINDS.get(FailureKind(row.kind), JobState.FAILED)
    if row.ready_priority is not None:
        return JobState.READY
    if row.blocked_priority is not None:
        return JobState.BLOCKED
    if row.scheduled_at is not None:
        return JobState.RETRYING if row.attempts else JobState.SCHEDULED
    return None if row.finished_at is None else JobState.FINISHED
