"""Worker: claims ready jobs for the free capacity, and starts them."""

from __future__ import annotations

import asyncio
from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from anyio import CancelScope

from steady_queue import events
from steady_queue.store.operations.actions.queues import read_change_marker
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.timing import WakeEvent
    from steady_queue.aio.worker.awaited import AwaitedJobs
    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.aio.worker.claims import Claims
    from steady_queue.aio.worker.polling import PollingInterval
    from steady_queue.aio.worker.queues import QueuePlan, Queues
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, Lane

#: The pause while all capacity is in use; a task that ends wakes the worker earlier.
FULL_PAUSE_SECONDS = 60.0
#: The pause while the process may not claim: its lease has expired, or too many outcomes wait to be written.
MAY_NOT_CLAIM_PAUSE_SECONDS = 0.5
#: How long a claim may still take when the process stops.
LAST_CLAIM_SECONDS = 1.0
#: The worker claims at least this often, even if the change marker of the database has not changed.
POLL_ANYWAY_SECONDS = 5.0


class Worker:
    """One claim is in flight at a time in the whole process; capacity that is freed meanwhile is in the next claim."""

    def __init__(
        self,
        *,
        name: str,
        process_id: UUID,
        plan: QueuePlan,
        capacity: Capacity,
        claims: Claims,
        awaited: AwaitedJobs,
        driver: AsyncDriver,
        wake_event: WakeEvent,
        polling: PollingInterval,
        reconcile: Callable[[], Awaitable[None]],
        context: Context,
    ) -> None:
        self.name = name
        self.process_id = process_id
        self.plan = plan
        self.capacity = capacity
        self._claims = claims
        self._awaited = awaited
        self._driver = driver
        self._wake_event = wake_event
        self._polling = polling
        self._reconcile = reconcile
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._last_claim_at = self._clock.monotonic()
        self._last_poll_at: float | None = None
        self._marker: int | None = None
        self._claim_and_start_seconds = 0.0
        self._needs_reconciling = False
        self._is_more_left = False
        self._claim_scope = CancelScope()
        self._claim_deadline = inf

    @property
    def polled_ago(self) -> float | None:
        """Seconds since its last successful poll; 0 without free capacity, for then it has nothing to poll for."""
        if self._last_poll_at is None:
            return None
        if self._claims.may_claim() and not self.capacity.free(self._claim_and_start_seconds):
            return 0.0
        return self._clock.monotonic() - self._last_poll_at

    async def run(self) -> None:
        must_claim = True
        while True:
            free = self.capacity.free(self._claim_and_start_seconds) if self._claims.may_claim() else {}
            self.capacity.wakes_worker = len(free) < self.capacity.lanes_in_use
            claims: list[Claim] = []
            self._is_more_left = False
            try:
                if self._needs_reconciling:
                    await self._reconcile()
                    self._needs_reconciling = False
                if free and await self._has_news(must_claim):
                    claims = await self._claim_and_start(free)
            except Exception as error:
                # The claim may have been made although its reply was lost.
                self._needs_reconciling = True
                self._marker = None
                await self._outage.wait(self.name, error)
                continue
            self._outage.succeeded(self.name)
            if _got_all_wanted(claims, free) or self._is_more_left:
                must_claim = True  # there may be more jobs
                continue
            must_claim = await self._wake_event.wait(self._next_pause(bool(claims)))
            if must_claim:
                gather_seconds = self._polling.count_wake_up(self._clock.monotonic())
                if gather_seconds and not self.capacity.wakes_worker:
                    await asyncio.sleep(gather_seconds)

    def _next_pause(self, found: bool) -> float:
        """Return how long to sleep at most, and set whether a task that ends is to wake the worker."""
        if not self._claims.may_claim():
            self.capacity.wakes_worker = False
            self._marker = None
            return MAY_NOT_CLAIM_PAUSE_SECONDS
        free = self.capacity.free(self._claim_and_start_seconds)
        self.capacity.wakes_worker = len(free) < self.capacity.lanes_in_use
        return self._polling.next_pause(found=found) if free else FULL_PAUSE_SECONDS

    async def _claim_and_start(self, free: dict[Lane, int]) -> list[Claim]:
        queues = await self.plan.queues(free)
        began = self._clock.monotonic()
        async with self._claims.lock:
            claims = await self._claim(free, queues)
            if self._claims.lease.is_held:
                self.capacity.start(claims)
            else:
                self.capacity.release(claims, "the lease of the process expired while the task was claimed")
        self._last_claim_at = self._last_poll_at = ended = self._clock.monotonic()
        self._claim_and_start_seconds = ended - began
        if len(claims) < sum(free.values()) and self.plan.may_miss:
            self._marker = None
        if claims:
            self._awaited.changed(lambda: [claim.job_id for claim in claims])
        self._emit(claims)
        return claims

    def _emit(self, claims: Sequence[Claim]) -> None:
        milliseconds = self._claim_and_start_seconds * 1000
        if self._events.is_wanted(events.Polled):
            self._events.emit(events.Polled(actor=self.name, found=len(claims), milliseconds=milliseconds))
        if claims and self._events.is_wanted(events.JobsClaimed):
            ids = [claim.job_id for claim in claims]
            self._events.emit(
                events.JobsClaimed(process_id=self.process_id, job_ids=ids, count=len(ids), milliseconds=milliseconds)
            )

    async def _claim(self, free: Mapping[Lane, int], queues: Queues) -> list[Claim]:
        # A shutdown must not interrupt the worker between the claim and the start: the reply would be lost. But a
        # server that does not answer must not delay the shutdown for ever: then the claims are found by process id.
        with CancelScope(shield=True, deadline=self._claim_deadline) as self._claim_scope:
            if queues is None:
                wanted = [ClaimRequest(self.process_id, lane, count) for lane, count in free.items()]
                taken = await self._driver.run(claim_from_all(self._driver.sql, *wanted))
                self._is_more_left = taken.is_paused
                if taken.is_paused:
                    self.plan.require_names()
                return taken.claims
            wanted = [ClaimRequest(self.process_id, lane, free[lane], names) for lane, names in queues.items() if names]
            claims = await self._driver.run(claim(self._driver.sql, *wanted)) if wanted else []
            self._is_more_left = self.plan.record(queues, claims, free)
            return claims
        return []

    def limit_last_claim(self) -> None:
        """The process stops: cancel a claim that takes longer than LAST_CLAIM_SECONDS from now."""
        self._claim_deadline = self._claim_scope.deadline = asyncio.get_running_loop().time() + LAST_CLAIM_SECONDS

    async def _has_news(self, must_claim: bool) -> bool:
        """Return whether a claim could find jobs. Asks the database only where that is cheaper than a claim."""
        if not self._driver.sql.change_marker:
            return True
        marker = await self._driver.run(read_change_marker(self._driver.sql))
        has_changed, self._marker = marker != self._marker, marker
        now = self._clock.monotonic()
        # The marker does not change with writes of this process: jobs that those made ready are found a little later.
        if must_claim or has_changed or now - self._last_claim_at > POLL_ANYWAY_SECONDS:
            return True
        self._last_poll_at = now
        return False


def _got_all_wanted(claims: Sequence[Claim], wanted: Mapping[Lane, int]) -> bool:
    """Return whether a lane got as many jobs as were wanted for it."""
    got = Counter(claim.lane for claim in claims)
    return any(got[lane] == count for lane, count in wanted.items())
