"""Restarts: tells the receivers of `process_restarted` whom a supervisor has replaced, while it goes on."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from steady_queue.aio.identity import hostname, process_name
from steady_queue.aio.process.actors import actors_of
from steady_queue.aio.process.lifecycle import Lifecycle
from steady_queue.store.operations.processes import NewProcess

if TYPE_CHECKING:
    from uuid import UUID

    from steady_queue.aio.supervisor.children import Replacement
    from steady_queue.events import Events


class Restarts:
    """A signal for each actor of a child that was replaced."""

    def __init__(self, *, supervisor_id: UUID, events: Events) -> None:
        self._supervisor_id = supervisor_id
        self._events = events
        self._done: asyncio.Queue[Replacement] = asyncio.Queue()

    def put(self, done: Replacement) -> None:
        self._done.put_nowait(done)

    async def run(self) -> None:
        while True:
            done = await self._done.get()
            id_, pid = done.before.id, done.before.pid
            row = NewProcess(id_, "process", process_name(pid, id_), pid, hostname(), self._supervisor_id)
            actors = list(actors_of(done.before.options, row))
            await Lifecycle(actors, events=self._events).restarted(
                exitcode=done.status, replacement_pid=done.child.pid, supervisor_pid=os.getpid()
            )
