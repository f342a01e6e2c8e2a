"""Restart signals: sends `process_restarted` for children that a supervisor has replaced, while it goes on.

The restart itself is in children.py, its delay in child_position.py.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from steady_queue.aio.process.deadlines import Deadlines
from steady_queue.aio.process.lifecycle import Lifecycle, actors_of
from steady_queue.aio.process_identity import hostname, process_name
from steady_queue.store.operations.processes.registration import NewProcess

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.supervisor.child_position import Replacement


class RestartSignals:
    """One signal for each actor of a replaced child."""

    def __init__(self, *, supervisor_id: UUID, context: Context) -> None:
        self._supervisor_id = supervisor_id
        self._clock = context.clock
        self._events = context.events
        self._queue: asyncio.Queue[Replacement] = asyncio.Queue()

    def put(self, replacement: Replacement) -> None:
        self._queue.put_nowait(replacement)

    async def run(self) -> None:
        while True:
            replacement = await self._queue.get()
            replaced = replacement.replaced
            name = process_name(replaced.pid, replaced.id)
            row = NewProcess(replaced.id, "process", name, replaced.pid, hostname(), self._supervisor_id)
            # Deadlines of its own: receivers have the same time before and after a shutdown is requested.
            lifecycle = Lifecycle(
                list(actors_of(replaced.options, row)), deadlines=Deadlines(self._clock), events=self._events
            )
            await lifecycle.send_restarted(
                exitcode=replacement.status, replacement_pid=replacement.child.pid, supervisor_pid=os.getpid()
            )
