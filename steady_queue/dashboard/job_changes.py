"""What can be done with tasks from the dashboard, and what came of it for each of them.

A task may have changed since its page was shown. So each outcome says what was done, or why nothing was done.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from steady_queue import actions
from steady_queue.db.aliases import queue_alias
from steady_queue.errors import DuplicateTask, JobIsRunning
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.models.endings import Cancellation
from steady_queue.monitoring.job_states import read_states
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Tasks that are changed in one request: in one transaction, and within the time that a web server grants.
BATCH_ROWS = 500

_WORDS = {
    JobState.RUNNING: "is running",
    JobState.FAILED: "has failed",
    JobState.EXHAUSTED: "has failed in all of its attempts",
    JobState.LOST: "has failed because its process was lost",
    JobState.FINISHED: "has finished",
    JobState.CANCELLED: "was cancelled",
    JobState.EXPIRED: "has expired",
    JobState.RETRYING: "waits for its next attempt",
}


class OutcomeKind(StrEnum):
    """What came of a change of one task."""

    DONE = "done"
    #: The task runs, and its process is asked to stop it.
    REQUESTED = "requested"
    #: The task is no longer in a state in which this can be done.
    CHANGED = "already changed"
    REFUSED = "refused"


class JobOutcome(NamedTuple):
    """What came of a change of one task, in words."""

    job_id: str
    kind: OutcomeKind
    text: str

    @property
    def is_done(self) -> bool:
        return self.kind in (OutcomeKind.DONE, OutcomeKind.REQUESTED)


@dataclass(frozen=True, slots=True)
class JobChange:
    """Something that can be done with tasks."""

    name: str
    label: str
    permission: str
    #: "12 tasks were retried".
    participle: str
    #: What it means, on the page that asks for confirmation.
    explanation: str
    states: frozenset[JobState]
    is_dangerous: bool = False


_ENDED_BADLY = frozenset(
    {JobState.FAILED, JobState.EXHAUSTED, JobState.LOST, JobState.CANCELLED, JobState.EXPIRED},
)
_DELAYED = frozenset({JobState.SCHEDULED, JobState.RETRYING, JobState.BLOCKED, JobState.LATE})
_WAITING = _DELAYED | {JobState.READY}

CHANGES: Mapping[str, JobChange] = {
    change.name: change
    for change in (
        JobChange(
            "retry",
            "Retry",
            "retry_job",
            "retried",
            "Failed tasks run again as if they were new, with the same arguments.",
            _ENDED_BADLY,
        ),
        JobChange(
            "run_now",
            "Run now",
            "run_job",
            "made ready",
            "Scheduled tasks do not wait for their time. Blocked tasks run beyond the limit of their key.",
            _DELAYED,
        ),
        JobChange(
            "cancel",
            "Cancel",
            "cancel_job",
            "cancelled",
            "Tasks that wait end now. The processes of running tasks are asked to stop them. No task is retried.",
            _WAITING | {JobState.RUNNING},
            is_dangerous=True,
        ),
        JobChange(
            "discard",
            "Discard",
            "discard_job",
            "discarded",
            "Tasks are deleted, with their errors and their logs. This cannot be undone.",
            _WAITING | _ENDED_BADLY,
            is_dangerous=True,
        ),
    )
}


def apply(change: JobChange, ids: Sequence[UUID], *, by: str = "", reason: str = "") -> list[JobOutcome]:
    """Change tasks, at most `BATCH_ROWS`; returns an outcome for each."""
    if change.name == "cancel":
        done = actions.cancel_many(ids, by=by, reason=reason)
        requested = _requested(done)
    else:
        done, requested = _MANY[change.name](ids), set()
    changed = {UUID(id_) for id_ in done}
    others = [id_ for id_ in ids if id_ not in changed]
    explained = dict(zip(others, explain_unchanged(change, others, by=by, reason=reason), strict=True))
    return [explained.get(id_) or _done(change, id_, is_requested=id_ in requested) for id_ in ids]


def explain_unchanged(change: JobChange, ids: Sequence[UUID], *, by: str = "", reason: str = "") -> list[JobOutcome]:
    """Return why tasks were not changed. One that could be changed by now is tried again, by itself."""
    states = read_states(ids)
    return [
        _apply_one(change, id_, by, reason)
        if states.get(id_) in change.states
        else JobOutcome(str(id_), OutcomeKind.CHANGED, describe_state(states.get(id_)))
        for id_ in ids
    ]


def describe_state(state: JobState | None) -> str:
    """What a task does now, as the end of a sentence; None for one that does not exist."""
    return "no longer exists" if state is None else _WORDS.get(state, f"is {state}")


def _apply_one(change: JobChange, job_id: UUID, by: str, reason: str) -> JobOutcome:
    """Change one task that was left out of its batch."""
    try:
        if change.name == "cancel":
            outcome = actions.cancel(job_id, by=by, reason=reason)
            if outcome:
                return _done(change, job_id, is_requested=outcome is actions.CancelOutcome.REQUESTED)
        elif _ONE[change.name](job_id):
            return _done(change, job_id)
    except DuplicateTask as error:
        return JobOutcome(str(job_id), OutcomeKind.REFUSED, f"the task {error.existing_ids[0]} has its unique key")
    except JobIsRunning:
        return JobOutcome(str(job_id), OutcomeKind.CHANGED, describe_state(JobState.RUNNING))
    except TaskResultDoesNotExist:
        return JobOutcome(str(job_id), OutcomeKind.CHANGED, describe_state(None))
    text = describe_state(read_states([job_id]).get(job_id))
    return JobOutcome(str(job_id), OutcomeKind.CHANGED, text)


_MANY: Mapping[str, Callable[[Sequence[UUID]], list[str]]] = {
    "retry": actions.retry_many,
    "run_now": actions.run_now_many,
    "discard": actions.discard_many,
}
_ONE: Mapping[str, Callable[[UUID], bool]] = {
    "retry": actions.retry,
    "run_now": actions.run_now,
    "discard": actions.discard,
}


def _requested(ids: Sequence[str]) -> set[UUID]:
    """Those of the cancelled tasks that still run."""
    if not ids:
        return set()
    return set(Cancellation.objects.using(queue_alias()).filter(job_id__in=ids).values_list("job_id", flat=True))


def _done(change: JobChange, job_id: UUID, *, is_requested: bool = False) -> JobOutcome:
    if is_requested:
        return JobOutcome(str(job_id), OutcomeKind.REQUESTED, "runs, and its process was asked to stop it")
    return JobOutcome(str(job_id), OutcomeKind.DONE, f"was {change.participle}")
