"""Tasks in every state, so that each page has something to show."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from steady_queue import TaskState, actions
from steady_queue.models import Process
from tests.browser.conditions import wait_for
from tests.browser.project import tasks

if TYPE_CHECKING:
    from steady_queue import SteadyQueueResult

#: The states that samples have.
SAMPLED = ("finished", "failed", "exhausted", "retrying", "running", "ready", "scheduled", "cancelled", "blocked")
#: Text that a page must show as text: markup, and a character that reverses what follows.
HOSTILE = '<script>document.title = "owned"</script>\u202egnp.exe'


def enqueue_samples() -> dict[str, str]:
    """Enqueue a task for each state, and wait until each is in it.

    Returns their ids by the states, and the id of the process that runs them.
    """
    later = tasks.quick.using(run_after=timedelta(hours=1))
    actions.pause("reports")
    samples: dict[str, SteadyQueueResult[Any]] = {
        "finished": tasks.quick.enqueue("sample"),
        "failed": tasks.fails.enqueue(HOSTILE, message=HOSTILE),
        "exhausted": tasks.gives_up.enqueue("sample"),
        "retrying": tasks.is_retried.enqueue("sample"),
        "running": tasks.runs_long.enqueue("sample"),
        "ready": tasks.quick.using(queue_name="reports").enqueue("sample"),
        "scheduled": later.enqueue("sample"),
        "cancelled": later.enqueue("cancelled"),
    }
    holder = tasks.one_at_a_time.enqueue("first")
    samples["blocked"] = tasks.one_at_a_time.enqueue("second")
    actions.cancel(samples["cancelled"])
    for state, sample in samples.items():
        wait_for_state(sample, state)
    wait_for_state(holder, "running")
    wait_for(lambda: has_progress(samples["running"]), "the progress of the running task")
    process = Process.objects.get()
    return {**{state: sample.id for state, sample in samples.items()}, "process": str(process.pk)}


def wait_for_state(task: SteadyQueueResult[Any], state: str) -> None:
    """Wait until the task is in this state."""

    def is_there() -> bool:
        task.refresh()
        return task.state is TaskState(state)

    wait_for(is_there, f"{task.task.name} to be {state}")


def has_progress(task: SteadyQueueResult[Any]) -> bool:
    task.refresh()
    return task.progress is not None
