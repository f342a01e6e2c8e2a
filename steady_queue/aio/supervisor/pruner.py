"""Pruner: what becomes of the tasks of a child that has ended.

Those that it cut off because it was told to stop are given back, now that it has certainly ended: nothing that runs is
ever given back. All others have failed, with the way it died: they may have ended, and must not run again unasked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.identity import process_name
from steady_queue.aio.maintenance.splitting import ClaimSplitter
from steady_queue.aio.supervisor.child import what
from steady_queue.errors import ProcessExitError
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.outage import Outage
    from steady_queue.aio.supervisor.child import End
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver


class Pruner:
    """Does it as soon as the database can be reached."""

    name = "undertaker"

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        made_ready: Callable[[], Awaitable[None]],
        events: Events,
        outage: Outage,
    ) -> None:
        self._splitter = ClaimSplitter(run=driver.run, sql=driver.sql, events=events)
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
        name = process_name(child.pid, child.id)
        told = "was told to stop and " if ended.was_told else ""
        error = report(ProcessExitError, f"{name} ({what(child.options)}) {told}{ended.how}")
        while True:
            try:
                fates, refusal = await self._splitter.end_process(child.id, name, error, ended.cut_off)
                break
            except Exception as failure:
                await self._outage.wait(self.name, failure)
        self._outage.over(self.name)
        if any(fates):
            failed, released = len(fates.failed), len(fates.released)
            self._events.emit(events.ChildPruned(pid=child.pid, failed=failed, released=released))
            if failed:
                self._events.emit(
                    events.JobsFailed(process_id=child.id, job_ids=fates.failed, count=failed, error=error.message)
                )
            await self._made_ready()
        if refusal is not None:
            # Others must not wait for what cannot be written. Maintenance will find the process without a heartbeat.
            self._events.emit(
                events.MaintenanceStepFailed(step=f"ending {name}", error=str(refusal), times=1, exception=refusal)
            )
