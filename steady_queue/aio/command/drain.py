"""Drain: `--drain`. Everything stops when the queues have nothing left to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.errors import StoreError
from steady_queue.store.operations.queues import find_unserved_queues, has_remaining_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.aio.outage import Outage
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.statement import Operation

#: A job that is due within so many seconds is waited for.
SOON = 5.0
#: How often it looks, in seconds.
LOOK_EVERY = 0.2


class Drain:
    """Looks at the queues that the workers take from; what runs there in other processes counts as well."""

    name = "draining"

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        dispatches: bool,
        driver: AsyncDriver,
        ready: asyncio.Event,
        drained: Callable[[], None],
        events: Events,
        outage: Outage,
    ) -> None:
        self._patterns = [pattern.strip() for pattern in patterns]
        self._driver = driver
        self._dispatches = dispatches
        self._ready = ready
        self._drained = drained
        self._events = events
        self._outage = outage

    async def run(self) -> None:
        await self._ready.wait()
        empty = 0
        # Twice: statements of one look are not of one moment, and a job may move behind their back.
        while empty < 2:
            try:
                empty = 0 if await self._driver.run(self._remains()) else empty + 1
            except Exception as error:
                empty = 0
                await self._outage.wait(self.name, error)
                continue
            self._outage.over(self.name)
            await asyncio.sleep(LOOK_EVERY if not empty else 0.05)
        await self._emit_unserved()
        self._drained()

    async def _emit_unserved(self) -> None:
        """Say what is left because no process of this version can run it: maintenance may not have had a turn."""
        try:
            left = await self._driver.run(find_unserved_queues(self._driver.sql, self._patterns))
        except StoreError:
            return  # the next process with this queue emits it again
        for queue, lane in left:
            self._events.emit(events.UnknownLane(queue_name=queue, lane=lane))

    def _remains(self) -> Operation[bool]:
        return has_remaining_jobs(self._driver.sql, self._patterns, within=SOON, is_dispatched=self._dispatches)
