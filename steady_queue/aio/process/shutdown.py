"""Stopping: what becomes of running tasks when their process stops, or may no longer believe that they are its own.

What has not begun, or has really stopped, is given back. What cannot be stopped never is: when the process stops, its
last statement fails it, or it is left to the supervisor, which gives it back when the process has ended; when trust is
lost, the process ends.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from anyio import CancelScope, current_time

from steady_queue import events
from steady_queue.aio.process.watchdog import EXIT_LEASE_LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.lease import Lease
    from steady_queue.aio.timing import Clock
    from steady_queue.aio.worker.capacity import Capacity, Running
    from steady_queue.events import Events
    from steady_queue.store.outcome import Outcome

#: How long async tasks get to stop after they were asked to, within the time for shutting down, in seconds.
CANCEL_GRACE = 0.5


class Stopping:
    """Stops the jobs of all workers of a process."""

    def __init__(
        self,
        *,
        name: str,
        slots: Sequence[Capacity],
        ended: Callable[[Outcome], None],
        trust: Lease,
        clock: Clock,
        events: Events,
        leave: Callable[[int], object],
    ) -> None:
        self.name = name
        #: How many tasks still ran when the process had stopped: threads, or coroutines that ignore a cancellation.
        self.abandoned = 0
        self._slots = slots
        self._ended = ended
        self._trust = trust
        self._clock = clock
        self._events = events
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._deadline = inf
        self._grace = CANCEL_GRACE
        self._waiting = CancelScope()

    @property
    def running(self) -> list[Running]:
        # Copied in one step: the watchdog asks from its own thread.
        return [running for slots in self._slots for running in list(slots.running.values())]

    @property
    def released(self) -> int:
        """How many jobs were given back so far."""
        return sum(slots.released for slots in self._slots)

    async def drain(self) -> None:
        """Let tasks finish for as long as they may, then ask async ones to stop."""
        for slots in self._slots:
            slots.release_unstarted("the process stops")
        await self._idle(ask_first=True)
        if [running for slots in self._slots for running in slots.cancel_async("the process stops")]:
            self._deadline = max(self._deadline, self._clock.monotonic() + CANCEL_GRACE)
        await self._idle()

    def allow(self, seconds: float) -> None:
        """Let tasks have so much time from now, or less if less was said before."""
        self._grace = min(CANCEL_GRACE, seconds / 2)
        self._deadline = min(self._deadline, self._clock.monotonic() + seconds)
        self._waiting.cancel()

    async def _idle(self, *, ask_first: bool = False) -> None:
        while not all(slots.idle.is_set() for slots in self._slots):
            left = self._deadline - (self._grace if ask_first else 0.0) - self._clock.monotonic()
            if left <= 0:
                return
            with CancelScope(deadline=current_time() + left) as self._waiting:
                for slots in self._slots:
                    await slots.idle.wait()

    def abandon(self) -> None:
        """Forget what still runs: whatever it returns later is nobody's business."""
        for slots in self._slots:
            self.abandoned += slots.abandon()

    def lose_trust(self) -> None:
        """Others may have taken our claims: stop what can be stopped, and end the process if something cannot."""
        silent = self._trust.seconds_since_heartbeat
        reason = f"no heartbeat for {silent:.0f} s"
        unstarted = sum(slots.release_unstarted(reason) for slots in self._slots)
        asked = [running for slots in self._slots for running in slots.cancel_async(reason)]
        threads = sum(slots.running_threads for slots in self._slots)
        if unstarted or asked or threads:
            self._events.emit(events.LeaseLost(seconds=silent, threads=threads))
        self._leave_with(threads, asked)

    def lose(self, taken: set[UUID], *, is_pruned: bool) -> None:
        """Stop the jobs of claims that others have taken; threads too, if they took the process for dead."""
        reason = "its claim was taken back"
        asked = [running for slots in self._slots for running in slots.cancel_async(reason, taken)]
        threads = sum(running.session is None and running.claim.claim_id in taken for running in self.running)
        if asked or (threads and is_pruned):
            self._events.emit(events.ClaimsLost(count=len(taken), threads=threads))
        self._leave_with(threads if is_pruned else 0, asked)

    def _leave_with(self, threads: int, asked: Sequence[Running]) -> None:
        """End the process if threads still run, or tasks that were asked to stop still do after a moment."""
        if threads:
            self._leave(EXIT_LEASE_LOST)
        elif asked:
            self._loop.call_later(CANCEL_GRACE, self._leave_if_stuck, asked)

    def _leave_if_stuck(self, asked: Sequence[Running]) -> None:
        if {running.claim.claim_id for running in asked} & {running.claim.claim_id for running in self.running}:
            self._leave(EXIT_LEASE_LOST)
