"""An action on several tasks, with what came of it for each: for people who selected them and want to know.

A task may have changed since it was selected. So each outcome says what was done, or why nothing was done.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from steady_queue.actions import cancellation, steps
from steady_queue.db.transactions import run, run_one
from steady_queue.errors import DuplicateTask, JobIsRunning
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.jobs.results.task_result import TaskState, state_of
from steady_queue.store.operations.actions import job_actions as actions
from steady_queue.store.operations.actions.cancellation import CancelOutcome
from steady_queue.store.operations.results import find_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.actions.steps import Change
    from steady_queue.store.job import JobState

_CHANGES: dict[str, Change] = {"retry": actions.retry, "discard": actions.discard, "run_now": actions.run_now}
#: What can be done with several tasks, and its participle: "the task was retried".
PARTICIPLES = {"retry": "retried", "discard": "discarded", "run_now": "made ready", "cancel": "cancelled"}
_REQUESTED = "runs, and its process was asked to stop it"
#: States that need other words than "is ready".
_STATES = {
    "running": "is running",
    "failed": "has failed",
    "exhausted": "has failed in all of its attempts",
    "lost": "has failed because its process was lost",
    "finished": "has finished",
    "cancelled": "was cancelled",
    "expired": "has expired",
    "retrying": "waits for its next attempt",
}


class OutcomeKind(StrEnum):
    """What came of an action on one task."""

    DONE = "done"
    #: The task runs, and its process is asked to stop it.
    REQUESTED = "requested"
    #: The task is not, or no longer, in a state in which this can be done.
    STALE = "already changed"
    REFUSED = "refused"


class ActionOutcome(NamedTuple):
    """What came of an action on one task; `text` is the end of a sentence about the task."""

    job_id: str
    kind: OutcomeKind
    text: str

    @property
    def is_done(self) -> bool:
        return self.kind in (OutcomeKind.DONE, OutcomeKind.REQUESTED)


def apply_to(ids: Sequence[UUID], action: str, *, by: str = "", reason: str = "") -> list[ActionOutcome]:
    """Apply "retry", "discard", "run_now" or "cancel" to tasks, in batches; returns an outcome for each.

    `by` and `reason` are stored with a task that is cancelled. Raises ValueError for another action.
    """
    if action not in PARTICIPLES:
        raise ValueError(f"the action must be one of {', '.join(PARTICIPLES)}, not {action!r:.50}")
    if action == "cancel":
        found = run(cancellation.cancel_each(ids, cancellation.build_request(by, reason)))
        outcomes = {id_: _cancel_outcome(id_, outcome) for id_, outcome in found.items() if outcome}
    else:
        done = run(steps.change_many(_CHANGES[action], ids))
        outcomes = {UUID(id_): _done(UUID(id_), action) for id_ in done}
    others = [id_ for id_ in dict.fromkeys(ids) if id_ not in outcomes]
    states = run_one(lambda sql: find_states(sql, others))
    outcomes.update((id_, _explain(id_, action, states.get(id_))) for id_ in others)
    return [outcomes[id_] for id_ in ids]


def _cancel_outcome(job_id: UUID, outcome: CancelOutcome) -> ActionOutcome:
    if outcome is CancelOutcome.REQUESTED:
        return ActionOutcome(str(job_id), OutcomeKind.REQUESTED, _REQUESTED)
    return _done(job_id, "cancel")


def _done(job_id: UUID, action: str) -> ActionOutcome:
    return ActionOutcome(str(job_id), OutcomeKind.DONE, f"was {PARTICIPLES[action]}")


def _explain(job_id: UUID, action: str, state: JobState | None) -> ActionOutcome:
    """Return why a task was not changed. One that could be changed by now is tried again, by itself."""
    if action != "cancel" and state is not None and state.status in steps.STATUSES[_CHANGES[action]]:
        return _apply_again(job_id, action)
    return ActionOutcome(str(job_id), OutcomeKind.STALE, _describe(state))


def _apply_again(job_id: UUID, action: str) -> ActionOutcome:
    name = str(job_id)
    try:
        if run(steps.change_one(_CHANGES[action], job_id)):
            return _done(job_id, action)
    except DuplicateTask as error:
        return ActionOutcome(name, OutcomeKind.REFUSED, f"the task {error.existing_ids[0]} has its unique key")
    except JobIsRunning:
        return ActionOutcome(name, OutcomeKind.STALE, describe_state(TaskState.RUNNING))
    except TaskResultDoesNotExist:
        return ActionOutcome(name, OutcomeKind.STALE, describe_state(None))
    state = run_one(lambda sql: find_states(sql, [job_id])).get(job_id)
    return ActionOutcome(name, OutcomeKind.STALE, _describe(state))


def _describe(state: JobState | None) -> str:
    return describe_state(None if state is None else state_of(state))


def describe_state(state: str | None) -> str:
    """What a task in this state does, as the end of a sentence about it; None for one that does not exist."""
    return "no longer exists" if state is None else _STATES.get(state, f"is {state}")
