"""Loop: the event loop of a process of our own, and how it runs to the end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def quickest() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def run(main: Coroutine[Any, Any, T], *, is_quick: bool = True) -> T:
    """Run to the end.

    An asyncio task that raises SystemExit or KeyboardInterrupt makes the loop raise it as well. When a job has started
    that task, it is the job's affair, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=quickest if is_quick else asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        served = loop.create_task(main)
        while not served.done():
            try:
                loop.run_until_complete(served)
            except (SystemExit, KeyboardInterrupt):
                if served.done():
                    raise
                logging.getLogger("steady_queue").exception("a task inside a job raised what would end the process")
        return served.result()
