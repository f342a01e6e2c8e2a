"""Undertaker: what becomes of the tasks of a child that has ended.

They are given back when it ended because it was told to, and it has certainly ended: nothing that runs is ever given
back. When it died unasked they have failed, with the way it died.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue.aio import events
from steady_queue.aio.child import what
from steady_queue.aio.reports import report
from steady_queue.processes import ProcessExitError
from steady_queue.store.burial import end

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.child import End
    from steady_queue.aio.events import Events
    from steady_queue.aio.outage import Outage
    from steady_queue.store.drivers.pool import AsyncDriver


class Undertaker:
    """Does it as soon as the database can be reached."""

    name = "undertaker"

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        hostname: str,
        made_ready: Callable[[], Awaitable[None]],
        events: Events,
        outage: Outage,
    ) -> None:
        self._driver = driver
        self._hostname = hostname
        self._made_ready = made_ready
        self._events = events
        self._outage = outage
        self._ends: asyncio.Queue[End] = asyncio.Queue()
        #: Set while nobody waits to be buried.
        self.done = asyncio.Event()
        self.done.set()

    def put(self, ended: End) -> None:
        self.done.clear()
        self._ends.put_nowait(ended)

    async def run(self) -> None:
        while True:
            ended = await self._ends.get()
            await self._bury(ended)
            if self._ends.empty():
                self.done.set()

    async def _bury(self, ended: End) -> None:
        child = ended.child
        name = f"{self._hostname}:{child.pid}:{child.id.hex[:8]}"
        error = None if ended.was_told else report(ProcessExitError, f"{name} ({what(child.options)}) {ended.how}")
        while True:
            try:
                jobs = await self._driver.run(end(self._driver.sql, child.id, name, error))
                break
            except Exception as failure:
                await self._outage.wait(self.name, failure)
        self._outage.over(self.name)
        if jobs:
            fate = "given back" if ended.was_told else "failed"
            self._events.tell(events.ChildBuried(pid=child.pid, jobs=jobs, fate=fate))
            await self._made_ready()
