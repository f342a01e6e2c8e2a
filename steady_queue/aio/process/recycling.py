"""Recycling: a process that has run `max_tasks` tasks, or uses more than `max_rss`, stops; its supervisor replaces it.

TaskCounter: counts finished and failed tasks from the events of the process.
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
    """Subscribes to events."""

    #: The events that it counts.
    KINDS = (events.JobsSettled, events.JobFailed, events.JobReleased, events.JobFenced)

    def __init__(self, limit: int | None = None) -> None:
        #: Succeeded, failed or fenced; not released.
        self.ended = 0
        self.failed = 0
        self.released = 0
        self._fenced = 0
        #: Set when as many tasks have ended as the limit says.
        self.reached = asyncio.Event()
        self._limit = inf if limit is None else limit

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.JobsSettled):
            self.ended += event.count
        elif isinstance(event, events.JobFailed):
            self.failed += 1
        elif isinstance(event, events.JobReleased):
            self.ended -= 1
            self.released += 1
        elif isinstance(event, events.JobFenced):
            self._fenced += 1
        if self.ended >= self._limit:
            self.reached.set()

    @property
    def done(self) -> int:
        """How many tasks have succeeded. The failures of a batch are counted after the batch."""
        return self.ended - self.failed - self._fenced


#: How often the limits are checked.
CHECK_SECONDS = 0.5
MIB = 1024 * 1024


class Recycling:
    """Checks the number of tasks and the memory, each only if it has a limit."""

    def __init__(
        self,
        *,
        max_tasks: int | None,
        max_rss: int | None,
        counter: TaskCounter,
        recycle: Callable[[], None],
        events: Events,
        rss: Callable[[], int] | None = None,
    ) -> None:
        self._max_tasks = max_tasks
        self._max_rss = max_rss
        self._counter = counter
        self._recycle = recycle
        self._events = events
        self._rss = rss or resident_bytes

    async def run(self) -> None:
        while (reason := self._reason()) is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):  # nothing wakes this task when memory grows
                    await self._counter.reached.wait()
        self._events.emit(events.ProcessRecycling(reason=reason))
        self._recycle()

    def _reason(self) -> str | None:
        if self._max_tasks is not None and self._counter.ended >= self._max_tasks:
            return f"it has ended {self._counter.ended} tasks, the limit is {self._max_tasks}"
        # Not before the first task has ended: with a limit that is too low from the start, nothing would ever run.
        if self._max_rss is not None and self._counter.ended > 0 and (mib := self._rss() // MIB) > self._max_rss:
            return f"it has {mib} MiB of memory, the limit is {self._max_rss}"
        return None


def resident_bytes() -> int:
    """The memory of this process, in bytes; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    import resource

    return pages * resource.getpagesize()
