"""The tasks whose processes are killed. Each writes one row, with the name of its call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from tests.support.tasks.transactional import write

if TYPE_CHECKING:
    from steady_queue.jobs.definition.task import SteadyQueueTask
    from steady_queue.jobs.running.context import TaskContext

#: A task that is lost runs again, as often as it takes.
AGAIN: dict[str, Any] = {"max_attempts": 100, "retry_lost": True, "backoff": lambda error, result: 0}


@task(transactional=True, **AGAIN)
def transactional(name: str) -> str:
    write(name)
    return name


@limits_concurrency(key=lambda name: name, to=1, duration=timedelta(hours=1))
@task(transactional=True, **AGAIN)
def limited(name: str) -> str:
    write(name)
    return name


@task(takes_context=True, **AGAIN)
def block(context: TaskContext, name: str) -> None:
    with context.completing(name):
        write(name)


@task(takes_context=True, **AGAIN)
async def in_loop(context: TaskContext, name: str) -> None:
    await context.complete_in_transaction(_write_and_return, name)


def _write_and_return(name: str) -> str:
    write(name)
    return name


TASKS: dict[str, SteadyQueueTask[..., Any]] = {
    "transactional": transactional,
    "limited": limited,
    "block": block,
    "in_loop": in_loop,
}
