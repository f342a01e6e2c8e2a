"""`manage.py steady_queue --async`: every configured worker and dispatcher in one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from steady_queue.aio.embedding import prepared
from steady_queue.aio.lanes import OtherThreads
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Coroutine


class Command(BaseCommand):
    help = "Runs background tasks: workers and dispatchers as settings.STEADY_QUEUE describes them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--async", action="store_true", dest="in_one_loop", help="run everything in one event loop of one process"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["in_one_loop"]:
            raise CommandError("only --async is there yet: manage.py steady_queue --async")
        _show_log(options["verbosity"])
        try:
            _run(serve())
        except ConfigurationError as error:
            raise CommandError(str(error)) from error


def _show_log(verbosity: int) -> None:
    """Let the log be seen where the project has not said where it goes."""
    logger = logging.getLogger("steady_queue")
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))


async def serve() -> None:
    """Run until TERM or INT, which also end a start that waits for the database; then drain."""
    process = prepared()
    loop = asyncio.get_running_loop()
    threads = OtherThreads()
    loop.set_default_executor(threads)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not a handler of the loop: that would not be called while a task blocks it.
        signal.signal(number, process.stop_by_signal)
    await process.run()
    if process.refusal is not None:
        raise process.refusal
    if process.abandoned or threads.calls:
        # What became of their tasks is written. The interpreter would wait for them at its end, for ever perhaps.
        logging.shutdown()
        os._exit(0)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end.

    An asyncio task that raises SystemExit or KeyboardInterrupt makes the loop raise it as well. When a job has started
    that task, it is the job's affair, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        loop = runner.get_loop()
        served = loop.create_task(main)
        while not served.done():
            try:
                loop.run_until_complete(served)
            except (SystemExit, KeyboardInterrupt):
                if served.done():
                    raise
                logging.getLogger("steady_queue").exception("a task inside a job raised what would end the process")
        served.result()
