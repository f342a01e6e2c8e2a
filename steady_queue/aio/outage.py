"""Outage: what a service does when the database is unavailable. A service tries again; it never ends the process."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.errors import StoreBug, StoreError
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events

#: Pauses between tries start with the first and double up to the second.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 2.0


class Outage:
    """Pauses between the tries of each service; emits one event when it loses the database and one when it recovers."""

    def __init__(self, *, clock: Clock, events: Events) -> None:
        self._clock = clock
        self._events = events
        self._since: dict[str, float] = {}
        self._pauses: dict[str, float] = {}

    async def wait(self, service: str, error: Exception, *, at_most: float = MAX_PAUSE_SECONDS) -> None:
        """Pause before the next try. An error that is not a `StoreError` is reported as a fault of the runtime."""
        if not isinstance(error, StoreError):
            self._events.emit(events.RuntimeFault(where=service, error=report_of(error).traceback, exception=error))
        elif service not in self._since:
            self._since[service] = self._clock.monotonic()
            self._events.emit(events.DatabaseLost(service=service, error=str(error), exception=error))
        elif isinstance(error, StoreBug):
            self._events.emit(events.RuntimeFault(where=service, error=str(error), exception=error))
        pause = self._pauses.get(service, FIRST_PAUSE_SECONDS)
        self._pauses[service] = min(MAX_PAUSE_SECONDS, pause * 2)
        await asyncio.sleep(min(at_most, pause * random.uniform(0.5, 1)))

    def succeeded(self, service: str) -> None:
        """Record that the last try of the service succeeded."""
        self._pauses.pop(service, None)
        since = self._since.pop(service, None)
        if since is not None:
            self._events.emit(events.DatabaseRecovered(service=service, seconds=self._clock.monotonic() - since))
