"""Pruner: settles the claims of a child that has exited, and deletes its row.

Tasks that were interrupted by a requested exit are released, now that the process has certainly exited: a task that
runs is never released. All others have failed, with an error that says how the process exited: they may have ended, and
must not run again by themselves, unless their tasks have `retry_lost`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter
from steady_queue.aio.maintenance.lost_claims import emit_settled
from steady_queue.aio.process_identity import process_name
from steady_queue.aio.supervisor.child import describe_role
from steady_queue.errors import ProcessExitError
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.context import Context
    from steady_queue.aio.supervisor.child import ChildExit
    from steady_queue.store.drivers.pool import AsyncDriver


class Pruner:
    """Works as soon as the database can be reached."""

    name = "pruner"

    def __init__(
        self,
        *,
        driver: AsyncDriver,
        wake_all: Callable[[], Awaitable[None]],
        context: Context,
    ) -> None:
        self._splitter = ClaimSplitter(driver=driver, events=context.events)
        self._wake_all = wake_all
        self._events = context.events
        self._outage = context.outage
        self._queue: asyncio.Queue[ChildExit] = asyncio.Queue()
        #: Set while no exited child is left to prune.
        self.done = asyncio.Event()
        self.done.set()

    def put(self, exited: ChildExit) -> None:
        self.done.clear()
        self._queue.put_nowait(exited)

    async def run(self) -> None:
        while True:
            await self._prune(await self._queue.get())
            if self._queue.empty():
                self.done.set()

    async def _prune(self, exited: ChildExit) -> None:
        child = exited.child
        name = process_name(child.pid, child.id)
        why = " after it was asked to stop" if exited.was_requested else ""
        error = report(ProcessExitError, f"{name} ({describe_role(child.options)}) {exited.summary}{why}")
        while True:
            try:
                settled, rejection = await self._splitter.end_process(child.id, name, error, exited.released_claims)
                break
            except Exception as failure:
                await self._outage.wait(self.name, failure)
        self._outage.succeeded(self.name)
        if any(settled):
            self._events.emit(
                events.ChildPruned(
                    pid=child.pid,
                    failed=len(settled.failed) + len(settled.cancelled),
                    released=len(settled.released),
                    retried=len(settled.retried),
                )
            )
            emit_settled(self._events, settled, child.id, error)
            await self._wake_all()
        if rejection is not None:
            # The next children must not wait for what cannot be written. Maintenance finds this process by its missing
            # heartbeat.
            self._events.emit(
                events.MaintenanceStepFailed(step=f"pruning {name}", error=str(rejection), times=1, exception=rejection)
            )
