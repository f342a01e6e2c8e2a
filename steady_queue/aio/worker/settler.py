"""Settler: writes the outcomes of jobs, in batches that form without a timer.

One settle statement is in flight; outcomes that arrive meanwhile go into the next. An idle process settles one job at
once, a busy one hundreds per commit. An outcome is never dropped: it is retried until it is written, and while too many
wait, nothing is claimed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

import steady_queue
from steady_queue import events
from steady_queue.aio.worker.polling import LISTENING_SECONDS
from steady_queue.errors import StoreDataError, StoreError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.job import FailureKind
from steady_queue.store.operations.results import find_jobs
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Completed, Failed, Finished, Released, Retried, Snoozed, Verdict, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.worker.awaited import AwaitedJobs
    from steady_queue.aio.worker.reporting.reports import Reports
    from steady_queue.aio.worker.unknown_tasks import UnknownTasks
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.outcome import Ending, Outcome, Settlement

#: Outcomes in one statement.
BATCH_SIZE = 500
#: Characters of return values in one statement, unless a single value has more: database servers limit its size.
BATCH_CHARACTERS = 8_000_000
#: The pause after an outcome that cannot be stored even as a plain failure. The outcomes behind it wait as long.
UNSTORABLE_PAUSE_SECONDS = 0.5
#: The number of outcomes that may wait before nothing more is claimed.
MAX_WAITING = 20_000


class Settler:
    """Keeps outcomes until the database has stored them."""

    def __init__(
        self,
        *,
        name: str,
        driver: AsyncDriver,
        process_name: str,
        wake_all: Callable[[], Awaitable[None]],
        wake_dispatchers: Callable[[], Awaitable[None]],
        awaited: AwaitedJobs,
        unknown_tasks: UnknownTasks,
        reports: Reports,
        context: Context,
    ) -> None:
        self.name = name
        self._reports = reports
        self._driver = driver
        self._process_name = process_name
        self._wake_all = wake_all
        self._wake_dispatchers = wake_dispatchers
        self._awaited = awaited
        self._unknown_tasks = unknown_tasks
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._waiting: list[Outcome] = []
        self._in_flight: Sequence[Outcome] = ()
        #: The claims whose outcomes were replaced by plain failures that are not written yet.
        self._replaced: set[UUID] = set()
        self._name_for_replaced = f"{name} of what cannot be stored"
        self._wake = asyncio.Event()
        self.drained = asyncio.Event()
        self.drained.set()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= MAX_WAITING

    def put(self, outcome: Outcome) -> None:
        """Add an outcome to those that wait."""
        self._waiting.append(outcome)
        self.drained.clear()
        self._wake.set()

    def claims(self) -> set[UUID]:
        """Return the claims whose outcomes wait or are in flight."""
        return {outcome.claim.claim_id for outcome in (*self._waiting, *self._in_flight)}

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            size = self._next_batch_size()
            batch, self._waiting = self._waiting[:size], self._waiting[size:]
            self._in_flight = batch
            await self._settle(await self._unknown_tasks.decide(batch) if Failed in map(type, batch) else batch)
            self._in_flight = ()
            if not self._waiting:
                self._wake.clear()
                self.drained.set()

    def _next_batch_size(self) -> int:
        """Return how many of the outcomes that wait go into the next statement."""
        characters = 0
        for at, outcome in enumerate(self._waiting[:BATCH_SIZE]):
            if isinstance(outcome, Finished) and outcome.value is not None:
                characters += len(outcome.value)
                if characters > BATCH_CHARACTERS and at:
                    return at
        return BATCH_SIZE

    async def _settle(self, batch: Sequence[Outcome]) -> None:
        """Write a batch, however long it takes. A batch that is rejected is halved until the bad outcome is alone."""
        is_retry = False
        promotes = True
        while True:
            try:
                await self._write(batch, is_retry, promotes)
            except StoreDataError as error:
                if len(batch) > 1:
                    middle = len(batch) // 2
                    await self._settle(batch[:middle])
                    await self._settle(batch[middle:])
                    return
                if promotes and batch[0].claim.concurrency_key is not None:
                    # The rejected row may be that of the blocked job which would be promoted: not a fault of this task.
                    promotes = False
                    continue
                claim_id = batch[0].claim.claim_id
                if claim_id in self._replaced:
                    # It holds nothing of the task any more. It goes to the end of the list: the rest is written first.
                    await self._outage.wait(self._name_for_replaced, error, at_most=UNSTORABLE_PAUSE_SECONDS)
                    self._waiting.extend(batch)
                    return
                self._replaced.add(claim_id)
                batch = [_replace_by_failure(batch[0], error)]
                promotes = True
            except Exception as error:
                is_retry = is_retry or (isinstance(error, StoreError) and error.applied == "unknown")
                await self._outage.wait(self.name, error)
            else:
                self._outage.succeeded(self.name)
                if self._replaced:
                    self._replaced.difference_update(outcome.claim.claim_id for outcome in batch)
                    if not self._replaced:
                        self._outage.succeeded(self._name_for_replaced)
                return

    async def _write(self, batch: Sequence[Outcome], is_retry: bool, promotes: bool) -> None:
        if self._reports.are_pending:
            # What a task reported can be read when its end can; and a release would leave nothing to fence it by.
            await self._reports.flush_claims({outcome.claim.claim_id for outcome in batch})
        began = self._clock.monotonic()
        settlement = await self._driver.run(
            settle(
                self._driver.sql,
                batch,
                process_name=self._process_name,
                preserve=steady_queue.preserve_finished_jobs,
                limits=limits_in_force,
                promotes=promotes,
            )
        )
        self._awaited.settled(lambda: [outcome.claim.job_id for outcome in batch])
        milliseconds = (self._clock.monotonic() - began) * 1000
        self._events.emit(events.JobsSettled(count=len(batch), promoted=settlement.promoted, milliseconds=milliseconds))
        if settlement.promoted:
            self._events.emit(events.JobsPromoted(by=self.name, count=settlement.promoted))
        others = [outcome for outcome in batch if type(outcome) is not Finished]
        if settlement.promoted or any(isinstance(outcome, Released) for outcome in others):
            await self._wake_all()
        elif any(_is_due_soon(outcome) for outcome in others):
            await self._wake_dispatchers()
        if others or Verdict.FENCED in settlement.verdicts.values():
            await self._report(batch, settlement, is_retry)

    async def _report(self, batch: Sequence[Outcome], settlement: Settlement, is_retry: bool) -> None:
        """Emit an event for each outcome that is not a success, or was not written."""
        completed = await self._find_completed(batch, settlement)
        for outcome in batch:
            claim = outcome.claim
            # A release leaves nothing in the job's row: after a lost reply, a missing claim was released by the first
            # try.
            is_released = isinstance(outcome, (Released, Snoozed)) and is_retry
            if settlement.verdicts[claim.claim_id] is Verdict.FENCED and not is_released:
                self._events.emit(events.JobFenced(job_id=claim.job_id, task_path=claim.task_path))
            elif claim.job_id in completed:
                self._events.emit(events.JobCommitConfirmed(job_id=claim.job_id, task_path=claim.task_path))
            elif not isinstance(outcome, Finished):
                self._emit(outcome)
        for job_id, other_id in settlement.displaced.items():
            path = next(outcome.claim.task_path for outcome in batch if outcome.claim.job_id == job_id)
            self._events.emit(events.JobDisplaced(job_id=job_id, task_path=path, other_id=other_id))

    async def _find_completed(self, batch: Sequence[Outcome], settlement: Settlement) -> set[UUID]:
        """Return the jobs that their own transaction had finished, although the reply of its commit was lost."""
        if Verdict.REPEATED not in settlement.verdicts.values():
            return set()
        repeated = {
            outcome.claim.job_id
            for outcome in batch
            if settlement.verdicts[outcome.claim.claim_id] is Verdict.REPEATED and not isinstance(outcome, Finished)
        }
        if not repeated:
            return repeated
        found = await self._driver.run(find_jobs(self._driver.sql, sorted(repeated)))
        # A job that no longer exists was finished, and its row was not preserved.
        return repeated - {job.id for job in found if job.finished_at is None}

    def report_completed(self, completed: Completed) -> None:
        """Emit the events of a task that was settled in its own transaction."""
        who: dict[str, Any] = {"job_id": completed.claim.job_id, "task_path": completed.claim.task_path}
        promoted = completed.settlement.promoted
        if completed.is_applied:
            self._awaited.settled(lambda: [completed.claim.job_id])
        self._events.emit(events.JobsSettled(count=1, promoted=promoted, milliseconds=completed.milliseconds))
        if promoted:
            self._events.emit(events.JobsPromoted(by=self.name, count=promoted))
        if not completed.is_applied:
            self._events.emit(events.JobFenced(**who))
        elif completed.ignored:
            self._events.emit(events.JobContinuedAfterCompletion(**who, ignored=completed.ignored))

    def _emit(self, outcome: Failed | Retried | Snoozed | Released) -> None:
        who: dict[str, Any] = {"job_id": outcome.claim.job_id, "task_path": outcome.claim.task_path}
        match outcome:
            case Failed(kind=FailureKind.EXPIRED):
                pass  # maintenance reports those that expired in one event
            case Failed(kind=FailureKind.CANCELLED):
                self._events.emit(events.JobCancelled(**who, error=outcome.error.message))
            case Failed():
                self._events.emit(_failure_event(outcome))
            case Retried():
                self._events.emit(retry_event(outcome))
            case Snoozed():
                self._events.emit(events.JobSnoozed(**who, delay_seconds=outcome.delay_seconds, reason=outcome.reason))
            case Released():
                self._events.emit(events.JobReleased(**who, worker_id=self._process_name, reason=outcome.reason))


class TaskObserver(Protocol):
    """The host of the process: a child that stops reports to its supervisor which tasks have ended."""

    wants_ended_tasks: bool

    def task_ended(self, claim_id: UUID) -> None: ...


class Settlers:
    """The two settlers of a process. Jobs with a concurrency or unique key have their own, which may wait for keys."""

    def __init__(self, unlimited: Settler, limited: Settler, observer: TaskObserver) -> None:
        self.unlimited = unlimited
        self.limited = limited
        self._observer = observer

    def put(self, outcome: Ending) -> None:
        """A task has ended: pass its outcome to the settler that writes it, unless it is written."""
        if self._observer.wants_ended_tasks:
            self._observer.task_ended(outcome.claim.claim_id)
        claim = outcome.claim
        settler = self.unlimited if claim.concurrency_key is None and claim.unique_key is None else self.limited
        if isinstance(outcome, Completed):
            settler.report_completed(outcome)
        else:
            settler.put(outcome)

    def are_full(self) -> bool:
        """Return whether so many outcomes wait that nothing more may be claimed."""
        return self.unlimited.is_full or self.limited.is_full

    def claims(self) -> set[UUID]:
        """Return the claims whose outcomes are not written yet."""
        return self.unlimited.claims() | self.limited.claims()


def _is_due_soon(outcome: Outcome) -> bool:
    """Whether the job is scheduled and due before the dispatchers poll, which may be two seconds later."""
    return isinstance(outcome, (Retried, Snoozed)) and outcome.delay_seconds < LISTENING_SECONDS


def retry_event(outcome: Retried) -> events.JobRetryScheduled:
    """Return the event of an attempt that is followed by another one."""
    claim, error = outcome.claim, outcome.error
    return events.JobRetryScheduled(
        job_id=claim.job_id,
        task_path=claim.task_path,
        attempt=claim.attempts + 1,
        delay_seconds=outcome.delay_seconds,
        error=f"{error.exception_class}: {error.message}",
    )


def _failure_event(outcome: Failed) -> events.JobFailed:
    """Return the event of a failure: with its traceback, unless Django logs the failure."""
    claim = outcome.claim
    error = f"{outcome.error.exception_class}: {outcome.error.message}"
    if outcome.is_logged:
        return events.JobFailed(job_id=claim.job_id, task_path=claim.task_path, error=error)
    if not outcome.is_loadable:
        return events.JobUnrunnable(job_id=claim.job_id, task_path=claim.task_path, error=error)
    return events.JobFailedUnlogged(
        job_id=claim.job_id, task_path=claim.task_path, error=error, traceback=outcome.error.traceback
    )


def _replace_by_failure(outcome: Outcome, error: StoreDataError) -> Outcome:
    """Return a failure with a plain reason, which any database can store."""
    return Failed(outcome.claim, report(StoreDataError, f"the outcome could not be stored: {ascii(str(error))[:500]}"))
