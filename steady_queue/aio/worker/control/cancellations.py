"""Cancellations: reads which running tasks are to be cancelled, and cancels them.

A notification wakes it where the database has them; otherwise it looks about once a second. The same statement finds
whether the process itself is asked for something (see ../process/requests.py). A process that runs no task reads
nothing. Async tasks are cancelled; functions in threads see it in their context; what has not begun ends at once.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING

from steady_queue.store.operations.actions.cancellation import find_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.timing import WakeEvent
    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.aio.worker.claims import Claims
    from steady_queue.aio.worker.running import Running
    from steady_queue.store.drivers.pool import AsyncDriver

#: Between two looks, without and with notifications.
POLL_SECONDS, LISTENING_POLL_SECONDS = 1.0, 10.0
#: A task that still runs is cancelled again after so much time: it may have swallowed the cancellation.
CANCEL_AGAIN_SECONDS = 5.0
#: Tasks that are cancelled before the event loop continues with others.
SLICE_SIZE = 100


class Cancellations:
    """Cancels the running tasks of all workers of a process."""

    name = "cancellations"

    def __init__(
        self,
        *,
        process_id: UUID,
        supervisor_id: UUID | None,
        capacities: Sequence[Capacity],
        claims: Claims,
        driver: AsyncDriver,
        wake_event: WakeEvent,
        is_listening: Callable[[], bool],
        on_process_request: Callable[[], None],
        context: Context,
    ) -> None:
        self._process_id = process_id
        self._supervisor_id = supervisor_id
        self._capacities = capacities
        self._claims = claims
        self._driver = driver
        self._wake_event = wake_event
        self._is_listening = is_listening
        self._on_process_request = on_process_request
        self._clock = context.clock
        self._outage = context.outage
        self._looked_at = self._clock.monotonic()
        #: The async tasks that were cancelled and have not ended, each with the time of the last cancellation.
        self._cancelled: dict[UUID, tuple[Running, float]] = {}

    async def run(self) -> None:
        while True:
            is_woken = await self._wake_event.wait(min(POLL_SECONDS, CANCEL_AGAIN_SECONDS))
            if is_woken or self._is_due():
                try:
                    await self._look(is_woken)
                except Exception as error:
                    await self._outage.wait(self.name, error)
                else:
                    self._outage.succeeded(self.name)
            self._cancel_again()

    def _is_due(self) -> bool:
        return not self._is_listening() or self._clock.monotonic() - self._looked_at >= LISTENING_POLL_SECONDS

    async def _look(self, is_woken: bool) -> None:
        if is_woken:
            # A task that is to be cancelled may be in the reply of a claim that is in flight.
            async with self._claims.lock:
                pass
        if not any(capacity.running for capacity in self._capacities):
            return
        self._looked_at = self._clock.monotonic()
        found = await self._driver.run(find_requests(self._driver.sql, self._process_id, self._supervisor_id))
        if found.has_process_requests:
            self._on_process_request()
        requests = iter(dict(found.claims).items())
        while part := dict(islice(requests, SLICE_SIZE)):
            now = self._clock.monotonic()
            for capacity in self._capacities:
                for running in capacity.cancel(part):
                    self._cancelled[running.claim.claim_id] = (running, now)
            await asyncio.sleep(0)

    def _cancel_again(self) -> None:
        if not self._cancelled:
            return
        running_now = self._claims.running()
        self._cancelled = {id_: found for id_, found in self._cancelled.items() if id_ in running_now}
        now = self._clock.monotonic()
        for claim_id, (running, cancelled_at) in self._cancelled.items():
            if running.task is not None and not running.has_ended and now - cancelled_at >= CANCEL_AGAIN_SECONDS:
                running.task.cancel()
                self._cancelled[claim_id] = (running, now)
