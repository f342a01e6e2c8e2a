"""Each line of a task has its id, whichever logger wrote it and however many tasks run at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.recipes.projects import Project

TASKS = """
import asyncio, logging, time
import structlog
from steady_queue import task

def write(number):
    structlog.get_logger("shop").info("by structlog", number=number)
    logging.getLogger("shop").warning("by the standard library %s", number)

@task
def works(number):
    write(number)
    time.sleep(0.05)
    write(number)

@task
async def rests(number):
    write(number)
    await asyncio.sleep(0.05)
    write(number)

@task
def fails():
    raise ValueError("no")
"""
ENQUEUE = """
from shop.tasks import fails, rests, works
fails.enqueue()
for number in range(5):
    print(number, works.enqueue(number).id)
    print(number + 100, rests.enqueue(number + 100).id)
"""


def test_each_line_is_json_and_has_the_id_of_its_task(project: Project) -> None:
    project.add_recipe("structlog")
    project.append("shop/tasks.py", TASKS)
    project.manage("migrate", "steady_queue")
    ids = dict(line.split() for line in project.run_script(ENQUEUE).splitlines())
    worker = project.drain()

    lines = [json.loads(line) for line in worker.stderr.splitlines() if line.startswith("{")]
    written = [(str(line["number"]), line["task_id"]) for line in lines if line["event"] == "by structlog"]
    written += [
        (line["event"].split()[-1], line["task_id"]) for line in lines if line["event"].startswith("by the standard")
    ]
    assert sorted(written) == sorted(list(ids.items()) * 4)
    (failure,) = [line for line in lines if "exception" in line]
    assert (failure["task"], failure["level"], failure["logger"]) == ("shop.tasks.fails", "error", "django.tasks")
    assert "ValueError: no" in failure["exception"]
    assert any(line["logger"] == "steady_queue" and "started" in line["event"] for line in lines)
    assert all("task_id" not in line for line in lines if line["logger"] == "steady_queue")
