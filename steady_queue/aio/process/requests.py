"""Requests: reads what this process is asked to do, does it and writes the reply.

It sends no statement by itself. It is woken by a notification where the database has them, and by statements that the
process sends anyway and that also look for requests: those of cancellations, of maintenance and of the heartbeat. So an
idle process sends no more statements than without requests.

A supervisor has no listener. Its children also look for its requests, and wake it through their channels.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from steady_queue import events
from steady_queue.aio.timing import WakeEvent
from steady_queue.store.job import RequestKind
from steady_queue.store.operations.processes.requests import find_open_requests, write_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.aio.context import Context
    from steady_queue.aio.worker.control.live_stacks import LiveStacks
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.processes.registration import NewProcess
    from steady_queue.store.operations.processes.requests import OpenRequest


def _forward_nothing() -> None:
    pass


class Requests:
    """The requests to one process; `forward` is called if there are some to its supervisor."""

    name = "requests"

    def __init__(
        self,
        *,
        process: NewProcess,
        driver: AsyncDriver,
        stacks: LiveStacks | None,
        stop: Callable[[], None],
        forward: Callable[[], None] = _forward_nothing,
        context: Context,
    ) -> None:
        self._process = process
        self._asked = [id_ for id_ in (process.id, process.supervisor_id) if id_ is not None]
        self._driver = driver
        self._wake_event = WakeEvent()
        self._loop = asyncio.get_running_loop()
        self._stacks = stacks
        self._stop = stop
        self._forward = forward
        self._events = context.events
        self._outage = context.outage

    def wake(self) -> None:
        """There are requests, or there may be some."""
        self._wake_event.wake()

    def wake_from_any_thread(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.wake)

    async def run(self) -> None:
        while True:
            await self._wake_event.wait()
            try:
                await self._look()
            except Exception as error:
                self.wake()
                await self._outage.wait(self.name, error)
            else:
                self._outage.succeeded(self.name)

    async def _look(self) -> None:
        found = await self._driver.run(find_open_requests(self._driver.sql, self._asked))
        if any(request.process_id != self._process.id for request in found):
            self._forward()
        for request in found:
            if request.process_id == self._process.id:
                await self._answer(request)

    async def _answer(self, request: OpenRequest) -> None:
        is_stop = request.kind == RequestKind.STOP
        reply = {"is_stopping": True} if is_stop else await self._read_stack(request)
        await self._driver.run(write_reply(self._driver.sql, request.id, json.dumps(reply)))
        if is_stop:
            by = request.requested_by or "an action"
            self._events.emit(events.ProcessStopRequested(name=self._process.name, by=by))
            self._stop()

    async def _read_stack(self, request: OpenRequest) -> dict[str, Any]:
        found = None
        if self._stacks is not None and request.job_id is not None:
            found = await self._stacks.read(request.job_id)
        if found is None:
            return {"is_running": False}
        run_seconds = max(0.0, (request.now - found.claimed_at).total_seconds())
        return {"is_running": True, "run_seconds": round(run_seconds, 3), "stack": found.lines}
