"""Settler: writes what became of jobs, in batches that form by themselves.

One settle is in flight; whatever ends meanwhile goes into the next. An idle process settles one job at once, a busy one
hundreds per commit, and nothing waits for a timer. An outcome is never dropped: it is retried until it is written, and
while too many wait, nothing is claimed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import steady_queue
from steady_queue import events
from steady_queue.errors import StoreDataError, StoreError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Failed, Finished, Released, Verdict, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome

#: Outcomes in one statement.
BATCH_SIZE = 500
#: Characters of return values in one statement, but for a single one that has more: servers have their limits.
BATCH_CHARACTERS = 8_000_000
#: The pause after an outcome that cannot be stored even as a plain failure, in seconds: others wait for it too.
UNSTORABLE_PAUSE_SECONDS = 0.5
#: Outcomes that may wait before nothing more is claimed.
MAX_WAITING = 20_000


class Settler:
    """Holds outcomes until the database has them. Limited jobs have a settler of their own: their keys may wait."""

    def __init__(
        self,
        *,
        name: str,
        driver: AsyncDriver,
        worker_id: str,
        made_ready: Callable[[], Awaitable[None]],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self.name = name
        self._driver = driver
        self._worker_id = worker_id
        self._made_ready = made_ready
        self._clock = clock
        self._events = events
        self._outage = outage
        self._waiting: list[Outcome] = []
        self._in_flight: Sequence[Outcome] = ()
        #: The claims whose outcomes were replaced by plain failures, which are not written yet.
        self._stubborn: set[UUID] = set()
        self._aside = f"{name} of what cannot be stored"
        self._wake = asyncio.Event()
        self.drained = asyncio.Event()
        self.drained.set()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def put(self, outcome: Outcome) -> None:
        """Take over an outcome."""
        self._waiting.append(outcome)
        self.drained.clear()
        self._wake.set()

    def known(self) -> set[UUID]:
        """The claims whose outcome is waiting or on its way."""
        return {outcome.claim.claim_id for outcome in (*self._waiting, *self._in_flight)}

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            size = self._batch_size()
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            self._in_flight = batch
            await self._settle(batch)
            self._in_flight = ()
            if not self._waiting:
                self._wake.clear()
                self.drained.set()

    def _batch_size(self) -> int:
        """How many of those that wait go into the next statement."""
        characters = 0
        for at, outcome in enumerate(self._waiting[:BATCH_SIZE]):
            if isinstance(outcome, Finished) and outcome.value is not None:
                characters += len(outcome.value)
                if characters > BATCH_CHARACTERS and at:
                    return at
        return BATCH_SIZE

    async def _settle(self, batch: Sequence[Outcome]) -> None:
        """Write a batch, however long it takes. A batch that holds a poisonous outcome is split until it is alone."""
        again = False
        promotes = True
        while True:
            try:
                await self._write(batch, again, promotes)
            except StoreDataError as error:
                if len(batch) > 1:
                    middle = len(batch) // 2
                    await self._settle(batch[:middle])
                    await self._settle(batch[middle:])
                    return
                if promotes and batch[0].claim.concurrency_key is not None:
                    # Perhaps what cannot be written is the job that waits for the slot: that is not this task's fault.
                    promotes = False
                    continue
                claim_id = batch[0].claim.claim_id
                if claim_id in self._stubborn:
                    # Nothing of the task is in it any more. It goes to the end of the line, so that others get on.
                    await self._outage.wait(self._aside, error, at_most=UNSTORABLE_PAUSE_SECONDS)
                    self._waiting.extend(batch)
                    return
                self._stubborn.add(claim_id)
                batch = [_without_poison(batch[0], error)]
                promotes = True
            except Exception as error:
                again = again or (isinstance(error, StoreError) and error.applied == "unknown")
                await self._outage.wait(self.name, error)
            else:
                self._outage.succeeded(self.name)
                if self._stubborn:
                    self._stubborn.difference_update(outcome.claim.claim_id for outcome in batch)
                    if not self._stubborn:
                        self._outage.succeeded(self._aside)
                return

    async def _write(self, batch: Sequence[Outcome], again: bool, promotes: bool) -> None:
        began = self._clock.monotonic()
        settlement = await self._driver.run(
            settle(
                self._driver.sql,
                batch,
                worker_id=self._worker_id,
                preserve=steady_queue.preserve_finished_jobs,
                limits=limits_in_force,
                promotes=promotes,
            )
        )
        took = (self._clock.monotonic() - began) * 1000
        self._events.emit(events.JobsSettled(count=len(batch), promoted=settlement.promoted, milliseconds=took))
        if settlement.promoted:
            self._events.emit(events.JobsPromoted(by=self.name, count=settlement.promoted))
        if settlement.promoted or any(isinstance(outcome, Released) for outcome in batch):
            await self._made_ready()
        for outcome in batch:
            claim = outcome.claim
            # A release leaves no trace in the job: after a lost reply, what is missing was released by the first try.
            is_released = isinstance(outcome, Released) and again
            if settlement.verdicts[claim.claim_id] is Verdict.FENCED and not is_released:
                self._events.emit(events.JobFenced(job_id=claim.job_id, task_path=claim.task_path))
            elif isinstance(outcome, Released):
                self._tell_released(claim, outcome.reason)
            elif isinstance(outcome, Failed):
                self._events.emit(_failure(outcome))

    def _tell_released(self, claim: Claim, reason: str) -> None:
        self._events.emit(
            events.JobReleased(job_id=claim.job_id, task_path=claim.task_path, worker_id=self._worker_id, reason=reason)
        )


def _failure(outcome: Failed) -> events.JobFailed:
    """The event of a failure: nobody else logs it unless a handler emits the framework's line."""
    claim = outcome.claim
    error = f"{outcome.error.exception_class}: {outcome.error.message}"
    if outcome.is_logged:
        return events.JobFailed(job_id=claim.job_id, task_path=claim.task_path, error=error)
    if not outcome.is_loadable:
        return events.JobUnrunnable(job_id=claim.job_id, task_path=claim.task_path, error=error)
    return events.JobFailedUnlogged(
        job_id=claim.job_id, task_path=claim.task_path, error=error, traceback=outcome.error.traceback
    )


def _without_poison(outcome: Outcome, error: StoreDataError) -> Outcome:
    """The outcome as a failure with a plain reason, which any database can store."""
    return Failed(outcome.claim, report(StoreDataError, f"the outcome could not be stored: {ascii(str(error))[:500]}"))
