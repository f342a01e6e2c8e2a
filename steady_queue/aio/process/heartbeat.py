"""Heartbeat: says that this process is alive, and registers it anew when others thought it was not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue import events
from steady_queue.aio.outage import MAX_PAUSE_SECONDS
from steady_queue.errors import StoreError, StoreUnavailable
from steady_queue.store.operations.processes import heartbeat, register

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.lease import Lease
    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.processes import NewProcess
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: How soon it beats while its row tells no recent poll, by which its health is judged, in seconds.
SOON = 1.0


class Heartbeat:
    """Beats on a connection whose other statements wait for nobody's locks."""

    name = "heartbeat"

    def __init__(
        self,
        *,
        process: NewProcess,
        interval: float,
        driver: AsyncDriver,
        trust: Lease,
        lost_trust: Callable[[], None],
        buried: Callable[[], Awaitable[None]],
        polled_ago: Callable[[], float | None] | None,
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self._process = process
        self._interval = interval
        self._driver = driver
        self._trust = trust
        self._lost_trust = lost_trust
        self._buried = buried
        self._polled_ago = polled_ago
        self._was_buried = False
        self._is_over = False
        self._in_flight = asyncio.Lock()
        #: How long ago the last poll was by the last good beat; None when the row does not tell.
        self._told: float | None = None
        self._clock = clock
        self._events = events
        self._outage = outage
        self._steady_since = clock.monotonic()

    @property
    def is_steady(self) -> bool:
        """Whether beats have succeeded without a gap for one interval: only then may this process bury others."""
        return self._clock.monotonic() - self._steady_since >= self._interval

    @property
    def _told_enough(self) -> bool:
        """Whether the row tells a recent poll; a supervisor, which never polls, has nothing to tell."""
        return self._polled_ago is None or (self._told is not None and self._told <= self._interval)

    async def register(self) -> None:
        """Add this process's row, however long the database takes."""
        is_told = False
        while True:
            sent = self._clock.monotonic()
            try:
                await self._within_deadline(register(self._driver.sql, self._process))
            except StoreError as error:
                if not is_told:
                    self._events.emit(events.ProcessRegistrationFailed(**self._who, error=str(error)))
                    is_told = True
                await self._outage.wait(self.name, error)
                continue
            self._outage.succeeded(self.name)
            self._trust.renew(sent)
            self._events.emit(events.ProcessRegistered(**self._who))
            return

    @property
    def _who(self) -> dict[str, Any]:
        row = self._process
        return {
            "process_id": row.id,
            "kind": row.kind,
            "name": row.name,
            "pid": row.pid,
            "hostname": row.hostname,
        }

    async def rest(self) -> None:
        """Beat no more: one that comes after the row was deleted would make it anew."""
        self._is_over = True
        async with self._in_flight:
            pass

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval if self._told_enough else min(SOON, self._interval))
            if not self._trust.is_held:
                # This process slept longer than it was allowed to, and must not learn that from its next beat.
                self._lost_trust()
            while not await self._beat():
                self._steady_since = self._clock.monotonic()
                if not self._trust.is_held:
                    self._lost_trust()

    async def _beat(self) -> bool:
        if self._is_over:
            return True
        sent = self._clock.monotonic()
        polled = self._polled_ago() if self._polled_ago is not None else None
        try:
            async with self._in_flight:
                is_known = await self._within_deadline(heartbeat(self._driver.sql, self._process.id, polled))
                if not is_known:
                    self._was_buried, polled = True, None
                    await self._within_deadline(register(self._driver.sql, self._process))
                    self._events.emit(events.ProcessRegisteredAgain(**self._who))
                    self._steady_since = sent
            if self._was_buried:
                await self._buried()
                self._was_buried = False
        except Exception as error:
            await self._outage.wait(self.name, error, at_most=self._left(MAX_PAUSE_SECONDS))
            return False
        self._outage.succeeded(self.name)
        self._trust.renew(sent)
        self._told = polled
        return True

    def _left(self, seconds: float) -> float:
        """So long, but not past the end of trust: what it means must not wait for a database that does not answer."""
        return min(seconds, self._trust.expires_at - self._clock.monotonic()) if self._trust.is_held else seconds

    async def _within_deadline(self, operation: Operation[T]) -> T:
        try:
            async with asyncio.timeout(self._left(max(1.0, self._trust.duration_seconds / 4))):
                return await self._driver.run(operation)
        except TimeoutError:
            raise StoreUnavailable("the database did not answer in time") from None
