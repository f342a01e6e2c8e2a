"""The states of an order's tasks, for display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from orders import tasks
from steady_queue.jobs.compat import TaskResultDoesNotExist, TaskResultStatus

if TYPE_CHECKING:
    from orders.models import Step

WORDS = {
    TaskResultStatus.READY: "waiting",
    TaskResultStatus.RUNNING: "running",
    TaskResultStatus.SUCCESSFUL: "done",
    TaskResultStatus.FAILED: "failed",
}


@dataclass(frozen=True)
class State:
    """The state of one task: its name, a word for its status, and details."""

    task: str
    word: str
    detail: str = ""


def state_of(step: Step) -> State:
    task = getattr(tasks, step.task_name)
    try:
        result = task.get_result(step.result_id)
    except TaskResultDoesNotExist:
        # Finished tasks are deleted after `steady_queue.clear_finished_jobs_after`.
        return State(step.task_name, "done", "a while ago")
    detail = ""
    if result.status == TaskResultStatus.SUCCESSFUL:
        detail = str(result.return_value)
    elif result.status == TaskResultStatus.FAILED:
        detail = result.errors[-1].traceback.strip().splitlines()[-1]
    elif result.task.run_after is not None:
        detail = f"not before {result.task.run_after:%H:%M:%S} UTC"
    return State(step.task_name, WORDS[result.status], detail)
