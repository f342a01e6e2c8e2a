"""What can be done with tasks from the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steady_queue.actions.outcomes import ActionOutcome as JobOutcome
from steady_queue.actions.outcomes import OutcomeKind, apply_to
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

__all__ = ["BATCH_ROWS", "CHANGES", "JobChange", "JobOutcome", "OutcomeKind", "apply", "describe_state"]

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


@dataclass(frozen=True, slots=True)
class JobChange:
    """Something that can be done with tasks."""

    name: str
    label: str
    permission: str
    #: "12 tasks were retried".
    participle: str
    #: "Retrying: 500 tasks done".
    gerund: str
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
            "Retrying",
            "Failed tasks run again as if they were new, with the same arguments.",
            _ENDED_BADLY,
        ),
        JobChange(
            "run_now",
            "Run now",
            "run_job",
            "made ready",
            "Making ready",
            "Scheduled tasks do not wait for their time. Blocked tasks run beyond the limit of their key.",
            _DELAYED,
        ),
        JobChange(
            "cancel",
            "Cancel",
            "cancel_job",
            "cancelled",
            "Cancelling",
            "Tasks that wait end now. The processes of running tasks are asked to stop them. No task is retried.",
            _WAITING | {JobState.RUNNING},
            is_dangerous=True,
        ),
        JobChange(
            "discard",
            "Discard",
            "discard_job",
            "discarded",
            "Discarding",
            "Tasks are deleted, with their errors and their logs. This cannot be undone.",
            _WAITING | _ENDED_BADLY,
            is_dangerous=True,
        ),
    )
}


def apply(change: JobChange, ids: Sequence[UUID], *, by: str = "", reason: str = "") -> list[JobOutcome]:
    """Change tasks, at most `BATCH_ROWS`; returns an outcome for each."""
    return apply_to(ids, change.name, by=by, reason=reason)


def describe_state(state: JobState | None) -> str:
    """What a task does now, as the end of a sentence; None for one that does not exist."""
    return "no longer exists" if state is None else _WORDS.get(state, f"is {state}")
