"""Capacity: how many jobs a worker may run at once, and which are running. Only this module starts jobs."""

from __future__ import annotations

import asyncio
import contextvars
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from steady_queue.aio.orm_threads.connections import thread_connections
from steady_queue.aio.worker.control.timeouts import Timeouts
from steady_queue.aio.worker.running import Running, build_stopped
from steady_queue.aio.worker.threads import Threads
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.definition.expiry import refuse_expired
from steady_queue.store.job import Lane
from steady_queue.store.outcome import Completed, Failed, Finished, Released, report, report_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from uuid import UUID

    from steady_queue.aio.orm_threads.pool import OrmThreads
    from steady_queue.aio.orm_threads.session import OrmSession
    from steady_queue.aio.worker.control.timed_calls import WatchDeadline
    from steady_queue.aio.worker.executor import Executor
    from steady_queue.aio.worker.reporting.task_counts import TaskCounts
    from steady_queue.events import Events
    from steady_queue.jobs.running.context import TaskControl
    from steady_queue.store.job import CancelRequest, Claim
    from steady_queue.store.outcome import Ending

#: How long claims may wait for a thread behind functions that turn out to be long before they are released.
LONG_TASK_SECONDS = 0.1
#: The largest number of async jobs in one claim: starting more at once would block the event loop for too long.
MAX_CLAIMS = 500
ASYNC = Lane.ASYNC.value  # an integer: it is compared with the lane of every claim


class Capacity:
    """The jobs that one worker runs: at most `coroutines` in the async lane and `threads` in the thread lane."""

    def __init__(
        self,
        *,
        coroutines: int,
        threads: int,
        build_executor: Callable[[WatchDeadline], Executor],
        orm_threads: OrmThreads,
        settle: Callable[[Ending], None],
        wake_worker: Callable[[], None],
        on_stuck_thread: Callable[[], None],
        counts: TaskCounts,
        events: Events,
    ) -> None:
        self.sizes: dict[int, int] = {Lane.ASYNC: coroutines, Lane.THREAD: threads}
        self._room = dict(self.sizes)
        self._orm_threads = orm_threads
        self._settle = settle
        self._wake_worker = wake_worker
        self._threads: Threads[Running, Ending] = Threads(
            threads, self._in_clean_context, self._end_in_thread, on_exit=lambda: thread_connections().close()
        )
        self._loop = asyncio.get_running_loop()
        self._long_task_timer: asyncio.TimerHandle | None = None
        self._has_freed_thread = False
        #: Whether to wake the worker when a job ends.
        self.wakes_worker = False
        self.lanes_in_use = sum(1 for count in self.sizes.values() if count > 0)
        #: How many jobs were released so far.
        self.released = 0
        self.running: dict[UUID, Running] = {}
        self.threads = threads
        self._counts = counts
        #: Called when a thread is stuck in a task that has timed out, and when such a task has ended.
        self._on_stuck_thread = on_stuck_thread
        self._timeouts = Timeouts(
            self.running, finished=self._threads.finished_items, on_stuck=self._stuck, events=events
        )
        self._stuck_claims = self._timeouts.stuck
        self._executor = build_executor(self._timeouts.watch)
        #: Set while no job runs, apart from those that have timed out and are stuck: nothing waits for them.
        self.idle = asyncio.Event()
        self.idle.set()

    def free(self, seconds: float = 0.0) -> dict[Lane, int]:
        """Return how many jobs of each lane to claim: for the capacity that is free, or will be in so many seconds."""
        ahead = self._threads.ahead(seconds)
        wanted = {
            Lane.ASYNC: min(self._room[Lane.ASYNC], MAX_CLAIMS),
            # Half of what the threads can take ahead: the next claim is then in flight while these jobs run.
            Lane.THREAD: min(self._room[Lane.THREAD] + ahead, max(self._threads.count, ahead // 2)),
        }
        return {lane: count for lane, count in wanted.items() if count > 0}

    def unfinished(self) -> set[UUID]:
        """Return the claims whose jobs have not ended, not even in a thread whose result the loop has not read yet.

        May be called from any thread.
        """
        running = list(self.running)  # in one step: a set would hash each of them, and the loop may continue meanwhile
        return set(running) - {running.claim.claim_id for running in self._threads.finished_items()}

    def restartable(self) -> set[UUID]:
        """Return the unfinished claims without those that have timed out, which must not run again without an attempt,
        and without those that are to be cancelled, which must not run again at all.

        May be called from any thread.
        """
        jobs = list(self.running.values())
        ending = [job.claim.claim_id for job in jobs if job.has_timed_out or job.cancellation is not None]
        return self.unfinished().difference(ending)

    @property
    def stuck_threads(self) -> int:
        """How many threads run tasks that have timed out and do not end."""
        return sum(1 for claim_id in self._stuck_claims if self.running[claim_id].task is None)

    @property
    def running_threads(self) -> int:
        return sum(1 for running in self.running.values() if running.session is None)

    def start(self, claims: Sequence[Claim]) -> None:
        """Start jobs that were claimed for the free capacity."""
        for times, run in self._counts.runs_of(claims):
            for claim in run:
                if claim.expires_at is not None and (refused := refuse_expired(claim)) is not None:
                    self._settle(refused)
                    continue
                lane = claim.lane
                if not self.sizes.get(lane):
                    # Its ready row has another lane than its job row.
                    error = f"the job has the lane {lane}, for which this worker has no capacity"
                    self._settle(Failed(claim, report(ConfigurationError, error)))
                    continue
                self.idle.clear()
                self._room[lane] -= 1
                if lane == ASYNC:
                    session, context = self._orm_threads.begin(claim.label)
                    running = self.running[claim.claim_id] = Running(claim, times, session)
                    running.task = self._loop.create_task(self._run(running, session), context=context)
                else:
                    running = self.running[claim.claim_id] = Running(claim, times)
                    self._threads.submit(running)
        if self._room[Lane.THREAD] < 0 and self._long_task_timer is None:
            self._start_long_task_timer()

    def _start_long_task_timer(self) -> None:
        self._has_freed_thread = False
        self._long_task_timer = self._loop.call_later(LONG_TASK_SECONDS, self._release_if_no_thread_was_freed)

    def _release_if_no_thread_was_freed(self) -> None:
        """The running functions take longer than those before: another process may have a thread for what waits."""
        self._long_task_timer = None
        if self._room[Lane.THREAD] >= 0:
            return
        if self._has_freed_thread:
            self._start_long_task_timer()
        else:
            self.release_unstarted("the tasks before it take long")

    def release(self, claims: Iterable[Claim], reason: str) -> None:
        """Release jobs that were claimed and must not be started."""
        for claim in claims:
            self._settle(Released(claim, reason))

    def release_unstarted(self, reason: str) -> int:
        """Release the jobs that no thread has started; returns how many."""
        waiting = self._threads.remove_waiting()
        for running in waiting:
            self._end(running, build_stopped(running, reason))
        return len(waiting)

    def stop_async(self, reason: str, only: Collection[UUID] | None = None) -> list[Running]:
        """Stop the async tasks, or only those of some claims, and return them. Those that stop are released."""
        stopped: list[Running] = []
        for claim_id, running in list(self.running.items()):
            if running.task is not None and running.release_reason is None and (only is None or claim_id in only):
                running.release_reason = reason
                running.task.cancel()
                stopped.append(running)
                if running.session is not None and not running.has_begun:
                    # The coroutine of a task that is cancelled before its first step never runs.
                    self._orm_threads.end(running.session)
                    self._end(running, build_stopped(running, reason))
        return stopped

    def cancel(self, requests: Mapping[UUID, CancelRequest]) -> list[Running]:
        """Cancel the tasks of these claims: they do not run again. Returns the async tasks that have begun.

        A task that has not begun ends at once; a function in a thread sees the request in its context.
        """
        asked = [
            running
            for claim_id in requests
            if (running := self.running.get(claim_id)) is not None and running.cancellation is None
        ]
        for running in asked:
            running.cancellation = requests[running.claim.claim_id]
        if any(running.session is None for running in asked):
            for running in self._threads.remove_waiting_if(lambda waiting: waiting.cancellation is not None):
                self._end(running, build_stopped(running))
        cancelled: list[Running] = []
        for running in asked:
            if running.task is None or running.session is None:
                continue
            if running.release_reason is None and not running.has_ended:  # it may be cleaning up already
                running.task.cancel()
            if running.has_begun:
                cancelled.append(running)
            else:
                self._orm_threads.end(running.session)
                self._end(running, build_stopped(running))
        return cancelled

    def was_stopped(self, control: TaskControl) -> bool:
        """Return whether `stop_async` cancelled this job's task. Any other CancelledError is its failure."""
        if control.cancellation is not None:
            return False
        running = self.running.get(control.claim.claim_id)
        return running is None or running.release_reason is not None

    def abandon(self) -> int:
        """Forget the jobs that still run and could not be stopped; what they return later is ignored."""
        count = len(self.running)
        self.running.clear()
        self._stuck_claims.clear()
        self.idle.set()
        return count

    def close(self) -> None:
        if self._long_task_timer is not None:
            self._long_task_timer.cancel()
        self._timeouts.close()
        self._threads.close()

    async def _run(self, running: Running, session: OrmSession) -> None:
        outcome: Ending
        running.has_begun = True
        began = monotonic()
        try:
            outcome = await self._executor.run_async(running, self.was_stopped, session)
        except asyncio.CancelledError:
            # It may run again only when it has really stopped, and its transactions with it.
            await session.wait_for_calls()
            await session.release_thread()
            outcome = build_stopped(running, running.release_reason or "")
        except BaseException as error:
            # A fault of the runtime: the claim must end all the same.
            outcome = Failed(running.claim, report_of(error))
        self._orm_threads.end(session)
        self._end(running, outcome, monotonic() - began)

    def _in_clean_context(self, running: Running) -> Ending:
        if running.cancellation is not None:
            return build_stopped(running)
        running.thread_id = get_ident()
        running.has_begun = True
        try:
            # A thread's own context lives as long as the thread: the next task would see what this one sets.
            return contextvars.Context().run(self._executor.run_sync, running)
        except BaseException as error:
            return Failed(running.claim, report_of(error))

    def _end_in_thread(self, running: Running, outcome: Ending, seconds: float) -> None:
        self._has_freed_thread = True
        self._end(running, outcome, seconds)

    def _end(self, running: Running, outcome: Ending, seconds: float = 0.0) -> None:
        """End a job whose attempt took so many seconds, if it had begun."""
        claim = running.claim
        if self.running.pop(claim.claim_id, None) is None:
            return  # abandoned
        if running.has_timed_out:
            self._timeouts.forget(running)
            self._on_stuck_thread()
        running.has_ended = True
        if running.completed is not None and not isinstance(outcome, Completed):
            outcome = running.completed  # cancelled or timed out after it had been settled
        if type(outcome) is Finished:
            running.times.append(seconds)
        else:
            self.released += isinstance(outcome, Released)
            if running.has_begun:
                self._counts.add(outcome, seconds)
        self._room[claim.lane] += 1
        if not self.running or (self._stuck_claims and len(self.running) == len(self._stuck_claims)):
            self.idle.set()
        self._settle(outcome)
        if self.wakes_worker:
            self._wake_worker()

    def _stuck(self, running: Running) -> None:
        if len(self.running) == len(self._stuck_claims):
            self.idle.set()
        if running.task is None:
            self._on_stuck_thread()
