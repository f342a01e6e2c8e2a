"""The runtime inside somebody else's event loop: a script, a test, a web server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from anyio import CancelScope, create_task_group
from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from steady_queue.aio.process import Process
from steady_queue.configuration import Options
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def configured() -> Options:
    """The options in settings.STEADY_QUEUE, or the defaults; every problem is told at once."""
    options = getattr(settings, "STEADY_QUEUE", None) or Options()
    if not isinstance(options, Options):
        raise ConfigurationError("STEADY_QUEUE must be Configuration.Options(...)")
    problems = list(options.problems())
    if problems:
        raise ConfigurationError("; ".join(problems))
    return options


@asynccontextmanager
async def running(options: Options | None = None, **parts: Any) -> AsyncIterator[Process]:
    """Run workers and dispatchers in this loop for the length of the block; leaving it drains them.

    Installs no signal handlers. `parts` are the keyword arguments of Process.
    """
    if options is not None and (problems := list(options.problems())):
        raise ConfigurationError("; ".join(problems))
    autodiscover_modules("tasks")
    process = Process(options or configured(), **parts)
    async with create_task_group() as group:
        group.start_soon(_until_stopped, process)
        try:
            await process.ready.wait()
            yield process
        finally:
            process.stop()


async def _until_stopped(process: Process) -> None:
    # Shielded: a block that ends with an error cancels this group, and what runs must be drained all the same.
    with CancelScope(shield=True):
        await process.run()
