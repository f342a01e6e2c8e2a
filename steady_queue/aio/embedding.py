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


async def log_start(process: Process) -> str | None:
    """Log the version when the process works; returns the whole line, or None if the process does not start to work.

    The event ProcessStarted has logged the rest of that line just before.
    """
    await process.ready.wait()
    if process.start_problem is not None or process.deadlines.requested.is_set():
        return None
    version = steady_queue.__version__
    logger.info("Steady Queue %s runs tasks in this process", version)
    workers = process.options.workers
    queues = ", ".join(dict.fromkeys(name for worker in workers for name in worker.queues))
    coroutines, threads = sum(worker.coroutines for worker in workers), sum(worker.threads for worker in workers)
    return (
        f"Steady Queue {version} runs tasks in process {os.getpid()} on {process.services.hot.sql.name}"
        f" ({process.alias}): queues {queues or 'none'}, {coroutines} coroutines, {threads} threads"
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
            await log_start(process)
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
