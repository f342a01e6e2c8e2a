"""Listener: hears that other processes enqueued, where the database can tell, and knows whether it still hears.

A connection that hears nothing looks like a queue with nothing in it, so the listener is probed: it must hear its own
notification. Until it has, and as soon as it does not, workers poll at their own interval.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

from steady_queue import events
from steady_queue.aio.timing import WakeEvent
from steady_queue.errors import StoreUnavailable
from steady_queue.store.names import NOTIFY_CHANNEL
from steady_queue.store.operations.notify import notify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from steady_queue.aio.outage import Outage
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver

#: Between probes, and how long one may take, in seconds.
PROBE_EVERY, PROBE_WITHIN = 10.0, 5.0


class Listener:
    """The listener of a process."""

    name = "listener"

    def __init__(
        self,
        *,
        parameters: Mapping[str, Any],
        driver: AsyncDriver,
        ring: Callable[[], None],
        events: Events,
        outage: Outage,
    ) -> None:
        self._parameters = parameters
        self._driver = driver
        self._ring = ring
        self._events = events
        self._outage = outage
        self._probe = ""
        self._probe_heard = asyncio.Event()
        self.hears = False

    async def run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:
                self._lost(str(error))
                await self._outage.wait(self.name, error)

    async def _listen(self) -> None:
        broken = WakeEvent()
        from steady_queue.store.drivers import postgres  # only where it is the database

        connection = await postgres.listen(self._parameters, NOTIFY_CHANNEL, self._hear, broken.ring)
        try:
            while await self._is_heard():
                self._outage.over(self.name)
                self.hears = True
                if await broken.wait(PROBE_EVERY):
                    raise StoreUnavailable("the connection was closed")
            raise StoreUnavailable("a notification of its own did not come back")
        finally:
            connection.abandon()

    async def _is_heard(self) -> bool:
        self._probe = uuid4().hex
        self._probe_heard.clear()
        await self._driver.run(notify(self._driver.sql, self._probe))
        try:
            async with asyncio.timeout(PROBE_WITHIN):
                await self._probe_heard.wait()
        except TimeoutError:
            return False
        return True

    def _hear(self, payload: str) -> None:
        if payload == self._probe:
            self._probe_heard.set()
        elif payload == "":
            self._ring()

    def _lost(self, error: str) -> None:
        if self.hears:
            self.hears = False
            self._events.emit(events.ListenerLost(error=error))
        self._ring()
