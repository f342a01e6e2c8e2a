"""Drain: `--drain` stops everything when the queues are empty."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.errors import StoreError
from steady_queue.store.operations.actions.queues import find_unserved_queues, has_remaining_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steady_queue.aio.outage import Outage
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.queue_selection import QueueSelection
    from steady_queue.store.statement import Operation

#: A scheduled job that is due within so many seconds counts as not done yet.
DUE_SECONDS = 5.0
#: How often the queues are checked, and how soon after they were empty for the first time.
CHECK_SECONDS, RECHECK_SECONDS = 0.2, 0.05


class Drain:
    """Checks the queues of the workers; what other processes run from these queues counts as well."""

    name = "drain"

    def __init__(
        self,
        selections: Sequence[QueueSelection],
        *,
        has_dispatcher: bool,
        driver: AsyncDriver,
        ready: asyncio.Event,
        on_empty: Callable[[], None],
        events: Events,
        outage: Outage,
    ) -> None:
        self._selections = selections
        self._driver = driver
        self._has_dispatcher = has_dispatcher
        self._ready = ready
        self._on_empty = on_empty
        self._events = events
        self._outage = outage

    async def run(self) -> None:
        await self._ready.wait()
        empty = 0
        # Twice: the statements of one check do not see the same moment, and a job may move from one table to another.
        while empty < 2:
            try:
                empty = 0 if await self._driver.run(self._remains()) else empty + 1
            except Exception as error:
                empty = 0
                await self._outage.wait(self.name, error)
                continue
            self._outage.succeeded(self.name)
            await asyncio.sleep(RECHECK_SECONDS if empty else CHECK_SECONDS)
        await self._emit_unserved()
        self._on_empty()

    async def _emit_unserved(self) -> None:
        """Report what is left because this version cannot run it: maintenance may not have run yet."""
        try:
            left = await self._driver.run(find_unserved_queues(self._driver.sql, self._selections))
        except StoreError:
            return  # the next process with this queue emits it again
        for queue, lane in left:
            self._events.emit(events.UnknownLane(queue_name=queue, lane=lane))

    def _remains(self) -> Operation[bool]:
        return has_remaining_jobs(
            self._driver.sql, self._selections, within=DUE_SECONDS, is_dispatched=self._has_dispatcher
        )
