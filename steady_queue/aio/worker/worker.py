"""Worker: claims ready jobs for the room there is, and starts them."""

from __future__ import annotations

import asyncio
from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from anyio import CancelScope, current_time

from steady_queue import events
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.queues import read_change_marker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.aio.lease import Lease
    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock, WakeEvent
    from steady_queue.aio.worker.capacity import Capacity
    from steady_queue.aio.worker.polling import PollingInterval
    from steady_queue.aio.worker.queues import QueuePlan, Queues
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim, Lane

#: How long it sleeps when nothing could be started anyway; a slot that frees wakes it, in seconds.
FULL = 60.0
#: How long a claim may still take when the process stops, in seconds.
LAST_CLAIM = 1.0
#: How often it looks for jobs although nothing seems to have changed, in seconds.
LOOK_ANYWAY = 5.0


class Worker:
    """One claim is in flight at a time in the whole process; what frees up meanwhile is claimed with the next."""

    def __init__(
        self,
        *,
        name: str,
        process_id: UUID,
        plan: QueuePlan,
        slots: Capacity,
        driver: AsyncDriver,
        bell: WakeEvent,
        pace: PollingInterval,
        may_claim: Callable[[], bool],
        trust: Lease,
        claiming: asyncio.Lock,
        reconcile: Callable[[], Awaitable[None]],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self.name = name
        self.process_id = process_id
        self.plan = plan
        self.slots = slots
        self.bell = bell
        self._last_claim = clock.monotonic()
        self._last_poll: float | None = None
        self._driver = driver
        self._pace = pace
        self._may_claim = may_claim
        self._trust = trust
        self._claiming = claiming
        self._reconcile = reconcile
        self._clock = clock
        self._events = events
        self._outage = outage
        self._marker: int | None = None
        self._round_trip = 0.0
        self._is_unsure = False
        self._is_more_left = False
        self._scope = CancelScope()
        self._deadline = inf

    @property
    def polled_ago(self) -> float | None:
        """Seconds since it last looked for work with success; without room for any there is nothing to look for."""
        if self._last_poll is None:
            return None
        if self._may_claim() and not self.slots.free(self._round_trip):
            return 0.0
        return self._clock.monotonic() - self._last_poll

    async def run(self) -> None:
        rang = True
        while True:
            free = self.slots.free(self._round_trip) if self._may_claim() else {}
            self.slots.is_wanted = len(free) < self.slots.lanes_in_use
            claims: list[Claim] = []
            self._is_more_left = False
            try:
                if self._is_unsure:
                    await self._reconcile()
                    self._is_unsure = False
                if free and await self._has_news(rang):
                    claims = await self._turn(free)
            except Exception as error:
                # The claim may have been made although its reply was lost.
                self._is_unsure = True
                self._marker = None
                await self._outage.wait(self.name, error)
                continue
            self._outage.over(self.name)
            if _is_full(claims, free) or self._is_more_left:
                rang = True  # there may be more
                continue
            rang = await self.bell.wait(self._pause(bool(claims)))
            if rang:
                gather = self._pace.rang(self._clock.monotonic())
                if gather and not self.slots.is_wanted:
                    await asyncio.sleep(gather)

    def _pause(self, found: bool) -> float:
        """How long to sleep at most, and whether room that frees is to end it."""
        if not self._may_claim():
            self.slots.is_wanted = False
            self._marker = None
            return 0.5
        free = self.slots.free(self._round_trip)
        self.slots.is_wanted = len(free) < self.slots.lanes_in_use
        return self._pace.after(found=found) if free else FULL

    async def _turn(self, free: dict[Lane, int]) -> list[Claim]:
        queues = await self.plan.queues(free)
        began = self._clock.monotonic()
        async with self._claiming:
            claims = await self._claim(free, queues)
            if self._trust.is_held:
                self.slots.start(claims)
            else:
                self.slots.decline(claims, "the process slept past its time")
        self._last_claim = self._last_poll = ended = self._clock.monotonic()
        self._round_trip = ended - began
        if len(claims) < sum(free.values()) and self.plan.may_miss:
            self._marker = None
        self._tell(claims)
        return claims

    def _tell(self, claims: Sequence[Claim]) -> None:
        took = self._round_trip * 1000
        if self._events.hears(events.Polled):
            self._events.emit(events.Polled(actor=self.name, found=len(claims), milliseconds=took))
        if claims and self._events.hears(events.JobsClaimed):
            ids = [claim.job_id for claim in claims]
            self._events.emit(
                events.JobsClaimed(process_id=self.process_id, job_ids=ids, count=len(ids), milliseconds=took)
            )

    async def _claim(self, free: Mapping[Lane, int], queues: Queues) -> list[Claim]:
        # Not to be interrupted by a stop between the claim and the start: the reply would be lost. A server that does
        # not answer cannot hold up the stop for ever, though: then the claims are found by their process id.
        with CancelScope(shield=True, deadline=self._deadline) as self._scope:
            if queues is None:
                wanted = [ClaimRequest(self.process_id, lane, room) for lane, room in free.items()]
                taken = await self._driver.run(claim_from_all(self._driver.sql, *wanted))
                self._is_more_left = taken.is_paused
                if taken.is_paused:
                    self.plan.name_them()
                return taken.claims
            wanted = [ClaimRequest(self.process_id, lane, free[lane], names) for lane, names in queues.items() if names]
            claims = await self._driver.run(claim(self._driver.sql, *wanted)) if wanted else []
            self._is_more_left = self.plan.took(queues, claims, free)
            return claims
        return []

    def hurry(self) -> None:
        """Let the last claim take a moment longer, not more."""
        self._deadline = self._scope.deadline = current_time() + LAST_CLAIM

    async def _has_news(self, rang: bool) -> bool:
        """Whether a claim could find anything: asked only where the answer is cheaper than the claim."""
        if not self._driver.sql.change_marker:
            return True
        marker = await self._driver.run(read_change_marker(self._driver.sql))
        changed, self._marker = marker != self._marker, marker
        now = self._clock.monotonic()
        # The marker does not tell of this process's own writes: whatever was missed is found before long.
        if rang or changed or now - self._last_claim > LOOK_ANYWAY:
            return True
        self._last_poll = now
        return False


def _is_full(claims: Sequence[Claim], wanted: Mapping[Lane, int]) -> bool:
    """Whether a lane got all that was wanted for it."""
    got = Counter(claim.lane for claim in claims)
    return any(got[lane] == count for lane, count in wanted.items())
