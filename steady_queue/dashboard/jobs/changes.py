"""What can be done with tasks from the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steady_queue.actions.outcomes import PARTICIPLES
from steady_queue.monitoring.jobs.detail import states_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.monitoring.states import JobState

#: Tasks that are changed in one request: in one transaction, and within the time that a web server grants.
BATCH_ROWS = 500


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


CHANGES: Mapping[str, JobChange] = {
    change.name: change
    for change in (
        JobChange(
            "retry",
            "Retry",
            "retry_job",
            PARTICIPLES["retry"],
            "Retrying",
            "Failed tasks run again as if they were new, with the same arguments.",
            states_for("retry"),
        ),
        JobChange(
            "run_now",
            "Run now",
            "run_job",
            PARTICIPLES["run_now"],
            "Making ready",
            "Scheduled tasks do not wait for their time. Blocked tasks run beyond the limit of their key.",
            states_for("run_now"),
        ),
        JobChange(
            "cancel",
            "Cancel",
            "cancel_job",
            PARTICIPLES["cancel"],
            "Cancelling",
            "Tasks that wait end now. The processes of running tasks are asked to stop them. No task is retried.",
            states_for("cancel"),
            is_dangerous=True,
        ),
        JobChange(
            "discard",
            "Discard",
            "discard_job",
            PARTICIPLES["discard"],
            "Discarding",
            "Tasks are deleted, with their errors and their logs. This cannot be undone.",
            states_for("discard"),
            is_dangerous=True,
        ),
    )
}
