"""Failed tasks and errors of the runtime arrive at Sentry: at a transport that writes them to a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.recipes.projects import Project

#: After the recipe's own settings: the transport of the client that the recipe has made.
TRANSPORT = """
from sentry_sdk.transport import Transport

class FileTransport(Transport):
    def capture_envelope(self, envelope):
        import json
        with (BASE_DIR / "envelopes").open("a") as file:
            for item in envelope.items:
                if item.type == "event":
                    file.write(json.dumps(item.payload.json) + "\\n")

sentry_sdk.get_client().transport = FileTransport()
"""
TASKS = """
import sentry_sdk
from steady_queue import hooks, task

@task
def fails(order):
    sentry_sdk.set_tag("order", order)
    raise ValueError("in a thread")

@task
async def fails_async(order):
    raise ValueError("in the event loop")

@hooks.worker.on_start
def broken(worker):
    raise RuntimeError("in a hook")
"""
ENQUEUE = """
from shop.tasks import fails, fails_async
print(fails.enqueue(7).id, fails_async.enqueue(7).id)
"""


def test_failures_of_tasks_and_of_the_runtime_are_events(project: Project) -> None:
    dsn = {"SENTRY_DSN": "http://key@127.0.0.1:1/1"}
    project.add_recipe("Sentry")
    project.append("project/settings.py", TRANSPORT)
    project.append("shop/tasks.py", TASKS)
    project.manage("migrate", "steady_queue", **dsn)
    sync_id, async_id = project.run_script(ENQUEUE, **dsn).split()
    project.drain(**dsn)

    events = [json.loads(line) for line in (project.directory / "envelopes").read_text().splitlines()]
    # A busy machine may block the event loop, which is also logged at ERROR.
    assert {event["extra"]["event"] for event in events if "exception" not in event} <= {"LoopBlocked"}
    errors = [event for event in events if "exception" in event]
    assert {summary(event) for event in errors} == {
        ("ValueError", "in a thread", "fails", "shop.tasks.fails", sync_id, None),
        ("ValueError", "in the event loop", "fails_async", "shop.tasks.fails_async", async_id, None),
        ("RuntimeError", "in a hook", "broken", None, None, "the worker.on_start hook broken"),
    }
    assert len(errors) == 3
    assert [event["tags"]["task"] for event in errors if "order" in event.get("tags", {})] == ["shop.tasks.fails"]


def summary(event: dict[str, Any]) -> tuple[Any, ...]:
    """The exception, the function that raised it, and the tags."""
    exception = event["exception"]["values"][-1]
    tags = event.get("tags", {})
    function = exception["stacktrace"]["frames"][-1]["function"]
    found = exception["type"], exception["value"], function
    return (*found, tags.get("task"), tags.get("task_id"), tags.get("steady_queue"))
