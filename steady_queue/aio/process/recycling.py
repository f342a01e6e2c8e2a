"""Retirement: a process that has run enough tasks, or grown too large, leaves; its supervisor starts another.

TaskCounter: how many tasks a process has ended, counted from what it tells.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from steady_queue import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.events import Event, Events


class TaskCounter:
    """A subscriber of events."""

    #: What it counts.
    KINDS = (events.JobsSettled, events.JobFailed, events.JobReleased)

    def __init__(self, limit: int | None = None) -> None:
        self.ended = 0
        self.failed = 0
        #: Set when so many have ended.
        self.reached = asyncio.Event()
        self._limit = inf if limit is None else limit

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.JobsSettled):
            self.ended += event.count
        elif isinstance(event, events.JobFailed):
            self.failed += 1
        elif isinstance(event, events.JobReleased):
            self.ended -= 1
        if self.ended >= self._limit:
            self.reached.set()


#: How often it looks, in seconds.
LOOK_EVERY = 0.5
MIB = 1024 * 1024


class Retirement:
    """Looks at tasks and memory, each only if it has a limit."""

    def __init__(
        self,
        *,
        max_tasks: int | None,
        max_rss: int | None,
        tally: TaskCounter,
        retire: Callable[[], None],
        events: Events,
        rss: Callable[[], int] | None = None,
    ) -> None:
        self._max_tasks = max_tasks
        self._max_rss = max_rss
        self._tally = tally
        self._retire = retire
        self._events = events
        self._rss = rss or resident

    async def run(self) -> None:
        while (reason := self._reason()) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):  # memory tells nobody that it grows
                    await self._tally.reached.wait()
        self._events.emit(events.ProcessRecycling(reason=reason))
        self._retire()

    def _reason(self) -> str | None:
        if self._max_tasks is not None and self._tally.ended >= self._max_tasks:
            return f"it has ended {self._tally.ended} tasks, the limit is {self._max_tasks}"
        # Not before it has ended a task: a limit that is too low to begin with must not keep anything from being run.
        if self._max_rss is not None and self._tally.ended > 0 and (mib := self._rss() // MIB) > self._max_rss:
            return f"it has {mib} MiB of memory, the limit is {self._max_rss}"
        return None


def resident() -> int:
    """The memory of this process, in bytes; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    import resource

    return pages * resource.getpagesize()
