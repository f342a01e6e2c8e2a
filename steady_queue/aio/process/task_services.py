"""TaskServices: what the process does for its tasks through their contexts. Tasks call it from any thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steady_queue.aio.process.deadlines import Deadlines
    from steady_queue.aio.worker.reporting.reports import Reports


class TaskServices:
    """See `ContextServices`."""

    saves = True

    def __init__(self, reports: Reports, deadlines: Deadlines) -> None:
        self.put_progress = reports.put_progress
        self.put_line = reports.put_line
        self._requested = deadlines.requested
        self._loop = asyncio.get_running_loop()

    @property
    def is_stopping(self) -> bool:
        return self._requested.is_set()

    async def stopping(self) -> None:
        if asyncio.get_running_loop() is self._loop:
            await self._requested.wait()
        else:  # an async function in a thread, which has a loop of its own
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._requested.wait(), self._loop))
