"""Capacity: how many jobs may run at once, and which are running. The one place that creates a task for a job."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steady_queue.aio.orm_threads.connections import thread_connections
from steady_queue.aio.worker.threads import Threads
from steady_queue.errors import ConfigurationError
from steady_queue.store.job import Lane
from steady_queue.store.outcome import Failed, Released, report, report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from uuid import UUID

    from steady_queue.aio.orm_threads.pool import OrmThreads
    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.aio.worker.executor import Executor
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome

#: How long claims may wait behind functions that turn out to be long before they are given back, in seconds.
LONG_TASK_SECONDS = 0.1
#: More than this is never claimed in one go, lest starting them all holds up the loop.
MAX_CLAIMS = 500


@dataclass(slots=True)
class Running:
    """A job that runs now, or waits for a thread. Without an ORM session it is in a thread, and cannot be stopped."""

    claim: Claim
    session: OrmSession | None = None
    task: asyncio.Task[None] | None = None
    has_begun: bool = False
    #: Why it was asked to stop.
    stopped: str | None = None


class Capacity:
    """The jobs that one worker runs, at most so many in each lane."""

    def __init__(
        self,
        *,
        coroutines: int,
        threads: int,
        executor: Executor,
        orm_threads: OrmThreads,
        ended: Callable[[Outcome], None],
        freed: Callable[[], None],
    ) -> None:
        self._capacity: dict[int, int] = {Lane.ASYNC: coroutines, Lane.THREAD: threads}
        self._room = dict(self._capacity)
        self._executor = executor
        self._orm_threads = orm_threads
        self._ended = ended
        self._freed = freed
        self._threads: Threads[Claim, Outcome] = Threads(
            threads, self._in_clean_context, self._thread_ended, leave=lambda: thread_connections().close()
        )
        self._loop = asyncio.get_running_loop()
        self._patience: asyncio.TimerHandle | None = None
        self._freed_lately = False
        #: Whether room that frees is to be told: somebody waits for it.
        self.is_wanted = False
        self.lanes_in_use = sum(1 for count in self._capacity.values() if count > 0)
        #: How many jobs were given back so far.
        self.released = 0
        self.running: dict[UUID, Running] = {}
        self.idle = asyncio.Event()
        self.idle.set()

    def free(self, seconds: float = 0.0) -> dict[Lane, int]:
        """How many jobs of each lane to claim, if any: for the room there is, or surely will be in so many seconds."""
        ahead = self._threads.ahead(seconds)
        wanted = {
            Lane.ASYNC: min(self._room[Lane.ASYNC], MAX_CLAIMS),
            # Half of what can be fed ahead: so the next claim is under way while these run.
            Lane.THREAD: min(self._room[Lane.THREAD] + ahead, max(self._threads.count, ahead // 2)),
        }
        return {lane: count for lane, count in wanted.items() if count > 0}

    def unfinished(self) -> set[UUID]:
        """The claims whose jobs have not ended, not even unnoticed. May be asked from any thread."""
        running = list(self.running)  # in one step: a set would hash each of them, and the loop may go on meanwhile
        return set(running) - {claim.claim_id for claim in self._threads.over()}

    @property
    def running_threads(self) -> int:
        return sum(1 for running in self.running.values() if running.session is None)

    def start(self, claims: Iterable[Claim]) -> None:
        """Start jobs that were claimed for the room there is."""
        for claim in claims:
            if not self._capacity.get(claim.lane):
                # Its ready row named another lane than the job does.
                error = f"its row names the lane {claim.lane}, for which this worker has no room"
                self._ended(Failed(claim, report(ConfigurationError, error)))
                continue
            self.idle.clear()
            self._room[claim.lane] -= 1
            if claim.lane == Lane.ASYNC:
                session, context = self._orm_threads.begin(claim.label)
                running = self.running[claim.claim_id] = Running(claim, session)
                running.task = self._loop.create_task(self._run(running, session), context=context)
            else:
                self.running[claim.claim_id] = Running(claim)
                self._threads.submit(claim)
        if self._room[Lane.THREAD] < 0 and self._patience is None:
            self._be_patient()

    def _be_patient(self) -> None:
        self._freed_lately = False
        self._patience = self._loop.call_later(LONG_TASK_SECONDS, self._lose_patience)

    def _lose_patience(self) -> None:
        """Functions that began take longer than those before: others may have a thread for what waits behind them."""
        self._patience = None
        if self._room[Lane.THREAD] >= 0:
            return
        if self._freed_lately:
            self._be_patient()
        else:
            self.release_unstarted("the tasks before it take long")

    def release(self, claims: Iterable[Claim], reason: str) -> None:
        """Give back jobs that must not be started after all."""
        for claim in claims:
            self._ended(Released(claim, reason))

    def release_unstarted(self, reason: str) -> int:
        """Release what no thread has begun; returns how many."""
        claims = self._threads.remove_waiting()
        for claim in claims:
            self._end(claim, Released(claim, reason))
        return len(claims)

    def cancel_async(self, reason: str, only: Collection[UUID] | None = None) -> list[Running]:
        """Cancel the async tasks, or only those of some claims. Those that really stop are given back; returns all."""
        asked: list[Running] = []
        for claim_id, running in list(self.running.items()):
            if running.task is not None and running.stopped is None and (only is None or claim_id in only):
                running.stopped = reason
                running.task.cancel()
                asked.append(running)
                if running.session is not None and not running.has_begun:
                    # A coroutine that is cancelled before its first step is never entered.
                    self._orm_threads.end(running.session)
                    self._end(running.claim, Released(running.claim, reason))
        return asked

    def was_stopped(self, claim: Claim) -> bool:
        """Whether a cancellation of this job's task is ours. One that the task made up is its failure."""
        running = self.running.get(claim.claim_id)
        return running is None or running.stopped is not None

    def abandon(self) -> int:
        """Forget what still runs and could not be stopped; whatever it returns later is nobody's business."""
        count = len(self.running)
        self.running.clear()
        self.idle.set()
        return count

    def close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._threads.close()

    async def _run(self, running: Running, session: OrmSession) -> None:
        outcome: Outcome
        claim = running.claim
        running.has_begun = True
        try:
            outcome = await self._executor.run_async(claim, self.was_stopped, session)
        except asyncio.CancelledError:
            # Only when it has really stopped, and its transactions with it, may it run again.
            await session.wait_for_calls()
            await session.release_thread()
            outcome = Released(claim, running.stopped or "")
        except BaseException as error:
            # A fault of ours: whatever it is, the claim must not be left behind.
            outcome = Failed(claim, report_of(error))
        self._orm_threads.end(session)
        self._end(claim, outcome)

    def _in_clean_context(self, claim: Claim) -> Outcome:
        try:
            # A thread's own context lives as long as the thread: what one task sets, the next would see.
            return contextvars.Context().run(self._executor.run_sync, claim)
        except BaseException as error:
            return Failed(claim, report_of(error))

    def _thread_ended(self, claim: Claim, outcome: Outcome) -> None:
        self._freed_lately = True
        self._end(claim, outcome)

    def _end(self, claim: Claim, outcome: Outcome) -> None:
        if self.running.pop(claim.claim_id, None) is None:
            return  # abandoned
        self.released += isinstance(outcome, Released)
        self._room[claim.lane] += 1
        if not self.running:
            self.idle.set()
        self._ended(outcome)
        if self.is_wanted:
            self._freed()
