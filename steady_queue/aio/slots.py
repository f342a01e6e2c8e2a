"""Slots: how many jobs may run at once, and which are running. The one place that creates a task for a job."""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING

from steady_queue.aio.reports import report_of
from steady_queue.aio.threads import Threads
from steady_queue.store.job import Lane
from steady_queue.store.outcome import Failed, Released

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from steady_queue.aio.executor import Executor
    from steady_queue.aio.lanes import OrmLane, OrmLanes
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome


@dataclass(slots=True)
class Running:
    """A job that runs now; `task` is None when it runs in a thread, which cannot be stopped."""

    claim: Claim
    task: asyncio.Task[None] | None
    is_stopped: bool = False


class Slots:
    """The jobs that one worker runs, at most so many in each lane."""

    def __init__(
        self,
        *,
        coroutines: int,
        threads: int,
        executor: Executor,
        lanes: OrmLanes,
        ended: Callable[[Outcome], None],
        freed: Callable[[], None],
    ) -> None:
        self._room: dict[int, int] = {Lane.ASYNC: coroutines, Lane.THREAD: threads}
        self._executor = executor
        self._lanes = lanes
        self._ended = ended
        self._freed = freed
        self._threads: Threads[Claim, Outcome] = Threads(threads, self._in_clean_context, self._thread_ended)
        self._loop = asyncio.get_running_loop()
        self.running: dict[UUID, Running] = {}
        self.idle = asyncio.Event()
        self.idle.set()

    def free(self) -> dict[Lane, int]:
        """The room in each lane that has any."""
        return {Lane(lane): room for lane, room in self._room.items() if room > 0}

    @property
    def running_threads(self) -> int:
        return sum(1 for running in self.running.values() if running.task is None)

    def start(self, claims: Iterable[Claim]) -> None:
        """Start jobs that were claimed for the room there is."""
        for claim in claims:
            self.idle.clear()
            self._room[claim.lane] -= 1
            if claim.lane == Lane.ASYNC:
                lane, context = self._lanes.enter()
                task = self._loop.create_task(self._run(claim, lane), context=context)
                self.running[claim.claim_id] = Running(claim, task)
            else:
                self.running[claim.claim_id] = Running(claim, None)
                self._threads.submit(claim)

    def stop_async(self) -> int:
        """Cancel the async tasks. Those that really stop are given back; returns how many were asked."""
        asked = 0
        for running in list(self.running.values()):
            if running.task is not None and not running.is_stopped:
                running.is_stopped = True
                running.task.cancel()
                asked += 1
        return asked

    def abandon(self) -> list[Claim]:
        """Forget what still runs and could not be stopped; whatever it returns later is nobody's business."""
        claims = [running.claim for running in self.running.values()]
        self.running.clear()
        self.idle.set()
        return claims

    def close(self) -> None:
        self._threads.close()

    async def _run(self, claim: Claim, lane: OrmLane) -> None:
        outcome: Outcome
        try:
            outcome = await self._executor.run_async(claim)
        except asyncio.CancelledError as error:
            # Ours, and it has really stopped: it may run again. A cancellation that the task made up is its failure.
            await lane.really_stopped()
            running = self.running.get(claim.claim_id)
            stopped = running is None or running.is_stopped
            outcome = Released(claim) if stopped else Failed(claim, report_of(error))
        lane.left()
        self._end(claim, outcome)

    def _in_clean_context(self, claim: Claim) -> Outcome:
        # A thread's own context lives as long as the thread: what one task sets, the next would see.
        return contextvars.Context().run(self._executor.run_sync, claim)

    def _thread_ended(self, claim: Claim, outcome: Outcome) -> None:
        self._end(claim, outcome)

    def _end(self, claim: Claim, outcome: Outcome) -> None:
        if self.running.pop(claim.claim_id, None) is None:
            return  # abandoned
        self._room[claim.lane] += 1
        if not self.running:
            self.idle.set()
        self._ended(outcome)
        self._freed()
