"""Lost lease: what happens to running tasks when their process may no longer believe that their claims are its own.

Maintenance of another process may have pruned this one, and its tasks may run elsewhere. What has not begun, or has
really stopped, is released. A task that cannot be stopped is never released: the process ends instead.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.process.deadlines import CANCEL_SECONDS
from steady_queue.aio.process.watchdog import EXIT_FORCED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.aio.worker.claims import Claims
    from steady_queue.aio.worker.running import Running
    from steady_queue.events import Events


class LostLease:
    """Stops the tasks of all workers of a process, and the process if that is not possible."""

    def __init__(
        self,
        *,
        capacities: Sequence[Capacity],
        claims: Claims,
        events: Events,
        exit_now: Callable[[int], object],
    ) -> None:
        self._capacities = capacities
        self._claims = claims
        self._events = events
        self._exit_now = exit_now
        self._loop = asyncio.get_running_loop()

    def stop_all(self) -> None:
        """The lease ran out: stop every task that can be stopped, and end the process if one cannot."""
        silent_seconds = self._claims.lease.seconds_since_heartbeat
        reason = f"no heartbeat for {silent_seconds:.0f} s"
        unstarted = sum(capacity.release_unstarted(reason) for capacity in self._capacities)
        stopped = [running for capacity in self._capacities for running in capacity.stop_async(reason)]
        threads = sum(capacity.running_threads for capacity in self._capacities)
        if unstarted or stopped or threads:
            self._events.emit(events.LeaseLost(seconds=silent_seconds, threads=threads))
        self._exit_if_running(threads, stopped)

    def stop(self, claims: set[UUID], *, is_pruned: bool) -> None:
        """Stop the tasks of claims that this process no longer has; threads too if the process was pruned."""
        reason = "another process ended its claim"
        stopped = [running for capacity in self._capacities for running in capacity.stop_async(reason, claims)]
        running = self._claims.running_jobs()
        threads = sum(job.session is None and job.claim.claim_id in claims for job in running)
        if stopped or (threads and is_pruned):
            self._events.emit(events.ClaimsLost(count=len(claims), threads=threads))
        self._exit_if_running(threads if is_pruned else 0, stopped)

    def _exit_if_running(self, threads: int, stopped: Sequence[Running]) -> None:
        """End the process if threads still run, or if stopped tasks still do after a moment."""
        if threads:
            self._exit_now(EXIT_FORCED)
        elif stopped:
            self._loop.call_later(CANCEL_SECONDS, self._exit_if_stuck, stopped)

    def _exit_if_stuck(self, stopped: Sequence[Running]) -> None:
        if self._claims.running() & {running.claim.claim_id for running in stopped}:
            self._exit_now(EXIT_FORCED)
