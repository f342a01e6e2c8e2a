"""Embedding: the runtime inside the event loop of another program: a script, a test, a web server."""

from __future__ import annotations

import logging
import os
from contextlib import asynccontextmanager
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, create_task_group
from django.utils.module_loading import autodiscover_modules

import steady_queue
from steady_queue.aio.process.lifecycle import describe_actors
from steady_queue.aio.process.process import Process
from steady_queue.configuration import problems, read_options
from steady_queue.errors import ConfigurationError
from steady_queue.recurring.definitions import collect_recurrences

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from steady_queue.configuration import Options


logger = logging.getLogger("steady_queue")


def prepare(options: Options | None = None, **parts: Any) -> Process:
    """Import the tasks and build a process that is ready to run; raises with every problem of its options at once."""
    options = options or read_options()
    if found := list(problems(options)):
        raise ConfigurationError("; ".join(found))
    _import_tasks()
    if options.schedules and (found := list(collect_recurrences(options).problems())):
        raise ConfigurationError("\n".join(found))
    return Process(options, **parts)


def _import_tasks() -> None:
    try:
        autodiscover_modules("tasks")
    except Exception as error:  # of the project's code
        place = extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}, line {place.lineno}"
        raise ConfigurationError(f"the tasks cannot be imported: {type(error).__name__}: {error} ({where})") from error


async def wait_for_start(process: Process) -> bool:
    """Wait until the process has started; returns False if it cannot start, or was asked to stop before."""
    await process.ready.wait()
    return process.start_problem is None and not process.deadlines.requested.is_set()


def log_version() -> None:
    """Log the version of a process that has started; the event ProcessStarted has logged what it runs."""
    logger.info("Steady Queue %s runs tasks in this process", steady_queue.__version__)


def describe_start(process: Process) -> str:
    """The version, the database and the actors of a process in one line, for a server that logs no events."""
    return (
        f"Steady Queue {steady_queue.__version__} runs tasks in process {os.getpid()} on "
        f"{process.services.hot.sql.name} ({process.alias}): {describe_actors(process.options)}"
    )


@asynccontextmanager
async def running(options: Options | None = None, **parts: Any) -> AsyncIterator[Process]:
    """Run workers and dispatchers in this event loop during the block; the end of the block shuts them down.

    Installs no signal handlers. `parts` are the keyword arguments of Process.
    """
    process = prepare(options, **parts)
    failure: Exception | None = None
    async with create_task_group() as group:
        group.start_soon(_until_stopped, process)
        try:
            if await wait_for_start(process):
                log_version()
            if process.start_problem is None:
                yield process
        except Exception as error:
            # Kept, because the group would wrap it: an error of the block leaves `running` as it was raised.
            failure = error
        finally:
            process.stop()
    if failure := failure or process.start_problem:
        raise failure


async def _until_stopped(process: Process) -> None:
    # Shielded: a block that is cancelled cancels this group, and running tasks must be shut down all the same.
    with CancelScope(shield=True):
        await process.run()
