"""Listener: receives notifications (LISTEN) that other processes have enqueued jobs, and checks that it still does.

A connection that receives nothing looks like a queue without jobs, so the listener probes itself: it must receive a
notification of its own. Until it has, and as soon as it does not, workers poll at their own interval.
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

    from steady_queue.aio.context import Context
    from steady_queue.store.drivers.pool import AsyncDriver, ConnectionParameters

#: The time between two probes, and how long one may take.
PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS = 10.0, 5.0


class Listener:
    """The listener of a process. `announcements` has for the first word of a payload what receives the rest."""

    name = "listener"

    def __init__(
        self,
        *,
        parameters: ConnectionParameters,
        driver: AsyncDriver,
        wake: Callable[[], None],
        announcements: Mapping[str, Callable[[str], None]],
        context: Context,
    ) -> None:
        self._parameters = parameters
        self._driver = driver
        self._wake = wake
        self._announcements = announcements
        self._events = context.events
        self._outage = context.outage
        self._probe = ""
        self._probe_received = asyncio.Event()
        self._is_listening = False

    def is_listening(self) -> bool:
        """Return whether the last probe was received."""
        return self._is_listening

    async def run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:
                self._stop_listening(str(error))
                await self._outage.wait(self.name, error)

    async def _listen(self) -> None:
        broken = WakeEvent()
        from steady_queue.store.drivers import postgres  # not imported for other databases

        connection = await postgres.listen(self._parameters, NOTIFY_CHANNEL, self._receive, broken.wake)
        try:
            while await self._receives_probe():
                self._outage.succeeded(self.name)
                self._is_listening = True
                if await broken.wait(PROBE_INTERVAL_SECONDS):
                    raise StoreUnavailable("the connection was closed")
            raise StoreUnavailable("the listener did not receive its own notification")
        finally:
            connection.abandon()

    async def _receives_probe(self) -> bool:
        self._probe = uuid4().hex
        self._probe_received.clear()
        await self._driver.run(notify(self._driver.sql, self._probe))
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                await self._probe_received.wait()
        except TimeoutError:
            return False
        return True

    def _receive(self, payload: str) -> None:
        if payload == self._probe:
            self._probe_received.set()
        elif payload == "":
            self._wake()
        else:
            word, _, rest = payload.partition(" ")
            if receive := self._announcements.get(word):
                receive(rest)

    def _stop_listening(self, error: str) -> None:
        if self._is_listening:
            self._is_listening = False
            self._events.emit(events.ListenerLost(error=error))
        self._wake()
