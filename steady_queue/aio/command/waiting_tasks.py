"""Waiting tasks: how many ready tasks the queues of the workers have, for the status line.

A few statements every few seconds, which stop counting at a limit. They run only while a terminal shows the number, and
their errors concern nothing else: the services of the process report an outage.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio import move_on_after

from steady_queue.errors import StoreUnavailable
from steady_queue.store.operations.actions.queues import count_waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.aio.timing import Clock
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.queue_selection import QueueSelection

#: The count stops here: more would cost more, and mean the same to a reader.
MAX_COUNTED_TASKS = 10_000
#: How long a number is shown: at least so many seconds, and so many times as long as its query took.
REFRESH_SECONDS, COST_FACTOR = 3.0, 100
#: A count that takes longer is cancelled: it uses a connection of the services.
QUERY_SECONDS = 2.0


class WaitingTasks:
    """Knows the last number, and whether the database was unavailable at the last count."""

    def __init__(self, selections: Sequence[QueueSelection], *, driver: AsyncDriver, clock: Clock) -> None:
        self.count: int | None = None
        self.is_unavailable = False
        self._selections = selections
        self._driver = driver
        self._clock = clock

    async def run(self) -> None:
        while True:
            began = self._clock.monotonic()
            self.count = None if not self._selections else await self._query()
            # A connection attempt that failed says nothing about the cost of a count.
            cost_seconds = 0.0 if self.is_unavailable else self._clock.monotonic() - began
            await asyncio.sleep(max(REFRESH_SECONDS, COST_FACTOR * cost_seconds))

    async def _query(self) -> int | None:
        count: int | None = None
        is_unavailable = False
        counting = count_waiting(self._driver.sql, self._selections, at_most=MAX_COUNTED_TASKS + 1)
        try:
            with move_on_after(QUERY_SECONDS):
                count = await self._driver.run(counting)
        except StoreUnavailable:
            is_unavailable = True
        except Exception:  # noqa: S110, only this number is missing
            pass
        self.is_unavailable = is_unavailable
        return count

    @property
    def text(self) -> str | None:
        """`5 waiting`, `10,000+ waiting`; None if the number is not known."""
        if self.count is None:
            return None
        return f"{MAX_COUNTED_TASKS:,}+ waiting" if self.count > MAX_COUNTED_TASKS else f"{self.count:,} waiting"
