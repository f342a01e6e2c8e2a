"""The runtime as tests start and watch it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue.configuration import Dispatcher, Options, Worker
from steady_queue.events import Event, Events
from tests.support.wait import WAIT_TIMEOUT_SECONDS, in_thread, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.compat import Task, TaskResult

E = TypeVar("E", bound=Event)


class EmittedEvents(Events):
    """Events that keep the emitted ones."""

    def __init__(self) -> None:
        super().__init__([self._keep])
        self.all: list[Event] = []

    def _keep(self, event: Event) -> None:
        self.all.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.all if isinstance(event, kind)]


def worker(**options: Any) -> Options:
    """One worker with these options, and a dispatcher that polls often."""
    quick = [Dispatcher(polling_interval=timedelta(seconds=0.1))]
    return Options(workers=[Worker(**options)], dispatchers=quick)


async def wait_for_results(
    *results: TaskResult[Any], timeout_seconds: float = WAIT_TIMEOUT_SECONDS
) -> list[TaskResult[Any]]:
    """Wait until all results have finished or failed, and return them."""

    async def over() -> bool:
        for result in results:
            if not result.is_finished:
                await result.arefresh()
            if not result.is_finished:
                return False
        return True

    await until(over, f"of {len(results)} results some never end", timeout_seconds)
    return list(results)


async def values(*results: TaskResult[Any]) -> list[Any]:
    """Wait for the results, and return the values of the tasks, all of which must have succeeded."""
    return [result.return_value for result in await wait_for_results(*results)]


async def enqueue_each(task: Task[..., Any], arguments: Sequence[Any]) -> list[TaskResult[Any]]:
    """Enqueue one call of the task for each argument, one after another; return the results."""
    return [await task.aenqueue(argument) for argument in arguments]


def error_of(result: TaskResult[Any]) -> str:
    """The path of the exception that ended the only attempt."""
    (error,) = result.errors
    return error.exception_class_path


__all__ = [
    "WAIT_TIMEOUT_SECONDS",
    "EmittedEvents",
    "enqueue_each",
    "error_of",
    "in_thread",
    "until",
    "values",
    "wait_for_results",
    "worker",
]
