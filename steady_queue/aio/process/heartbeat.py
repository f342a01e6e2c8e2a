"""Heartbeat: writes that this process is alive, and registers it again if maintenance of another process pruned it.

Its last statement also finds whether the process is asked for something.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from steady_queue import events
from steady_queue.aio.outage import MAX_PAUSE_SECONDS
from steady_queue.errors import StoreError
from steady_queue.store.operations.processes.registration import heartbeat, register

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from steady_queue.aio.context import Context
    from steady_queue.aio.deadline_driver import DeadlineDriver
    from steady_queue.aio.lease import Lease
    from steady_queue.store.operations.processes.registration import NewProcess
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: The interval until the row has a recent `polled_at`: health checks read it.
FIRST_POLL_SECONDS = 1.0


class Heartbeat:
    """Uses a connection whose other statements wait for no locks."""

    name = "heartbeat"

    def __init__(
        self,
        *,
        process: NewProcess,
        interval: float,
        driver: DeadlineDriver,
        lease: Lease,
        on_lease_lost: Callable[[], None],
        on_pruned: Callable[[], Awaitable[None]],
        on_request: Callable[[], None],
        polled_ago: Callable[[], float | None] | None,
        measure: Callable[[float], str],
        on_success: Callable[[datetime], None],
        context: Context,
    ) -> None:
        self._process = process
        self._interval = interval
        self._driver = driver
        self._lease = lease
        self._on_lease_lost = on_lease_lost
        self._on_pruned = on_pruned
        self._on_request = on_request
        self._polled_ago = polled_ago
        #: Returns the measurements of the process; called with how many seconds too late the heartbeat was woken.
        self._measure = measure
        #: Called with the time of the database.
        self._on_success = on_success
        self._late_seconds = 0.0
        self._was_pruned = False
        self._is_stopped = False
        self._in_flight = asyncio.Lock()
        #: How long ago the last poll was when the last successful heartbeat was sent; None if the row has none.
        self._written_poll_age: float | None = None
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._steady_since = context.clock.monotonic()

    @property
    def is_steady(self) -> bool:
        """Whether heartbeats have succeeded for one interval without a gap: only then may this process prune others."""
        return self._clock.monotonic() - self._steady_since >= self._interval

    @property
    def _has_written_poll(self) -> bool:
        """Whether the row has a recent poll; a supervisor never polls."""
        if self._polled_ago is None:
            return True
        return self._written_poll_age is not None and self._written_poll_age <= self._interval

    async def register(self) -> None:
        """Insert this process's row, however long the database takes."""
        is_reported = False
        while True:
            sent = self._clock.monotonic()
            try:
                now = await self._run(register(self._driver.sql, self._process))
            except StoreError as error:
                if not is_reported:
                    self._events.emit(events.ProcessRegistrationFailed(**self._who, error=str(error)))
                    is_reported = True
                await self._outage.wait(self.name, error)
                continue
            self._outage.succeeded(self.name)
            self._lease.renew(sent)
            self._on_success(now)
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

    async def stop(self) -> None:
        """Send no more heartbeats: one that is sent after the row was deleted would insert it again."""
        self._is_stopped = True
        async with self._in_flight:
            pass

    async def run(self) -> None:
        while True:
            await self._sleep(self._interval if self._has_written_poll else min(FIRST_POLL_SECONDS, self._interval))
            if not self._lease.is_held:
                # The process slept past the end of its lease: it reacts before the next heartbeat would renew it.
                self._on_lease_lost()
            while not await self._beat():
                self._steady_since = self._clock.monotonic()
                if not self._lease.is_held:
                    self._on_lease_lost()

    async def _sleep(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        await asyncio.sleep(seconds)
        self._late_seconds = max(0.0, loop.time() - due)

    async def _beat(self) -> bool:
        if self._is_stopped:
            return True
        sent = self._clock.monotonic()
        polled = self._polled_ago() if self._polled_ago is not None else None
        try:
            async with self._in_flight:
                measurements = self._measure(self._late_seconds)
                beat = await self._run(heartbeat(self._driver.sql, self._process.id, polled, measurements))
                now = beat.at
                if now is None:
                    self._was_pruned, polled = True, None
                    now = await self._run(register(self._driver.sql, self._process))
                    self._events.emit(events.ProcessRegisteredAgain(**self._who))
                    self._steady_since = sent
            if self._was_pruned:
                await self._on_pruned()
                self._was_pruned = False
        except Exception as error:
            await self._outage.wait(self.name, error, at_most=self._cap_by_lease(MAX_PAUSE_SECONDS))
            return False
        self._outage.succeeded(self.name)
        self._lease.renew(sent)
        self._written_poll_age = polled
        self._on_success(now)
        if beat.has_requests:
            self._on_request()
        return True

    def _cap_by_lease(self, seconds: float) -> float:
        """`seconds`, capped at what is left of the lease, so that a hanging database cannot delay losing it."""
        return min(seconds, self._lease.expires_at - self._clock.monotonic()) if self._lease.is_held else seconds

    async def _run(self, operation: Operation[T]) -> T:
        seconds = max(1.0, self._lease.duration_seconds / 4)
        return await self._driver.run(operation, within=self._cap_by_lease(seconds))
