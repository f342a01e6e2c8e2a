"""Shutdown: how a process stops, from the request to its end.

`Shutdown.run` lists the stages 1 to 5; stage 0, `stop_intake`, comes before `run`. A graceful request (TERM) gives
tasks `shutdown_timeout`; an immediate one (QUIT, or a second Ctrl-C) gives them none, and shortens what is left of
every stage; a process that is recycled has no deadline. The deadlines are in deadlines.py. No stage waits for a task
that has timed out and is stuck.

A task that has not begun, or has really stopped, is released. One that cannot be stopped (a thread, or a coroutine that
ignores its cancellation) never is while it runs: the last statement of the process fails it, or the supervisor releases
it when the process has exited. One that has timed out has failed then, too: released, it could start over without end.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from anyio import create_task_group

from steady_queue import events
from steady_queue.aio.maintenance.batch_splitting import REJECTED, ClaimSplitter
from steady_queue.aio.maintenance.lost_claims import emit_settled
from steady_queue.aio.process.deadlines import BLOCKED_LOOP_SECONDS, FLUSH_NOW_SECONDS, shutdown_seconds
from steady_queue.errors import ProcessExitError, StoreError
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskGroup

    from steady_queue.aio.process.deadlines import Deadlines
    from steady_queue.aio.process.host import Host
    from steady_queue.aio.process.lifecycle import Lifecycle
    from steady_queue.aio.process.services import Services
    from steady_queue.events import Events

RELEASE_REASON = "the process stops"


class Shutdown:
    """Requested any number of times, from anywhere; run once, by the process."""

    def __init__(
        self, *, services: Services, lifecycle: Lifecycle, host: Host, deadlines: Deadlines, events: Events
    ) -> None:
        #: How many tasks still ran at the end: threads, or coroutines that ignore their cancellation.
        self.abandoned = 0
        self._services = services
        self._claims = services.claims
        self._capacities = [worker.capacity for worker in services.workers]
        self._lifecycle = lifecycle
        self._host = host
        self._deadlines = deadlines
        self._events = events
        self._row = services.row
        self._is_immediate = False
        self._loop = asyncio.get_running_loop()

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(self, seconds: float | None = None) -> None:
        """Stop gracefully: tasks may run for so many seconds, or `shutdown_timeout`."""
        self._deadlines.request(seconds)

    def request_now(self) -> None:
        """Stop without waiting for tasks; outcomes are written if that takes no longer than a moment."""
        if not self._is_immediate:
            self._is_immediate = True
            self._events.emit(events.ProcessQuitting(name=self._row.name, running=len(self._claims.running_jobs())))
        self._deadlines.request_now()

    def recycle(self) -> None:
        """Take no more tasks, and stop when those that run have ended and are settled, however long that takes."""
        self._host.announce_shutdown(self._claims.restartable, is_recycling=True)
        self._deadlines.requested.set()

    def replace_process(self) -> None:
        """Stop gracefully because threads are stuck; the supervisor starts another process at once."""
        if self._deadlines.requested.is_set():
            return
        self._host.announce_shutdown(self._claims.restartable, is_recycling=True)
        self.request()

    def request_by_person(self) -> None:
        """`request`; the supervisor, if there is one, starts another process at once."""
        if not self._deadlines.requested.is_set():
            self._host.announce_shutdown(self._claims.restartable, is_recycling=True)
        self.request()

    def request_by_signal(self) -> None:
        """`request` from a signal handler or any thread; effective even if a task blocks the event loop for ever."""
        self._host.announce_shutdown(self._claims.restartable)
        self._deadlines.exit_after(shutdown_seconds() + BLOCKED_LOOP_SECONDS)
        self._loop.call_soon_threadsafe(self.request)

    def request_now_by_signal(self) -> None:
        """`request_now` from a signal handler or any thread."""
        self._host.announce_shutdown(self._claims.restartable)
        self._deadlines.exit_after(FLUSH_NOW_SECONDS)
        self._loop.call_soon_threadsafe(self.request_now)

    # -- stages -------------------------------------------------------------------------------------------------------

    async def stop_intake(self, intake: TaskGroup) -> None:
        """Stage 0. Wait for a request. Then claim no more; the claim that is in flight has a moment to be answered."""
        await self._deadlines.requested.wait()
        for worker in self._services.workers:
            worker.limit_last_claim()
        intake.cancel_scope.cancel()

    async def run(self, wait_for_children: Callable[[], Awaitable[None]]) -> None:
        """The stages after the intake has stopped, in this order."""
        running, released_before = len(self._claims.running_jobs()), self._released
        seconds = self._deadlines.task_seconds
        self._events.emit(events.ProcessStopping(name=self._row.name, running=running, seconds=seconds))

        # 1. Stop: hooks, recurring tasks of other backends and tasks at the same time, so that a slow hook delays none.
        async with create_task_group() as group:
            group.start_soon(self._lifecycle.stop)
            group.start_soon(self._services.other_backends.drain, self._deadlines.flush_limit)
            await self._finish_tasks()
        # 2. The children of a supervisor in this event loop exit.
        await wait_for_children()
        # 3. The last outcomes are written, and the row of the process is deleted.
        await self._settle_and_deregister()
        # 4. Forget tasks that cannot be stopped; a supervisor, if there is one, releases them after this process has
        # exited.
        self._abandon_tasks()

        released = self._released - released_before
        self._events.emit(events.ProcessStopped(name=self._row.name, released=released, abandoned=self.abandoned))
        # 5. Exit: hooks, and the end of the program if it is ours.
        await self._lifecycle.exit()
        self._host.finish(is_busy=self.is_busy)

    async def _finish_tasks(self) -> None:
        """Release what has not begun, wait for what runs, cancel the async tasks that are left, wait for those."""
        for capacity in self._capacities:
            capacity.release_unstarted(RELEASE_REASON)
        await self._wait_for_tasks(lambda: self._deadlines.cancel_tasks_at)
        if [running for capacity in self._capacities for running in capacity.stop_async(RELEASE_REASON)]:
            self._deadlines.extend_for_cancelled_tasks()
        await self._wait_for_tasks(lambda: self._deadlines.tasks_by)

    async def _wait_for_tasks(self, deadline: Callable[[], float]) -> None:
        with self._deadlines.limit(deadline):
            while not all(capacity.idle.is_set() for capacity in self._capacities):
                for capacity in self._capacities:
                    await capacity.idle.wait()

    async def _settle_and_deregister(self) -> None:
        services = self._services
        self._deadlines.start_flush()
        with self._deadlines.flush_limit():
            await services.settlers.unlimited.drained.wait()
            await services.settlers.limited.drained.wait()
            await services.reports.flush()
            await services.statistics.flush()
            try:
                await self._reconcile()
                await self._deregister()
            except StoreError as error:
                # Nothing is lost: maintenance of another process finds a process without a heartbeat.
                self._emit_not_deregistered(error)

    async def _reconcile(self) -> None:
        try:
            await self._services.reconciliation.reconcile()
        except REJECTED as error:
            # The process must be deregistered all the same, with what still runs.
            step: dict[str, Any] = {"step": "reconciling claims", "times": 1}
            self._events.emit(events.MaintenanceStepFailed(**step, error=str(error), exception=error))

    async def _deregister(self) -> None:
        """The last statement: tasks that still run have failed, their slots are free, and the row is deleted.

        A supervisor does it instead, if this process has one: after this process has exited it releases those tasks,
        except those that had timed out.
        """
        if self._claims.unfinished() and self._host.release_after_exit(self._claims.restartable()):
            return
        await self._services.heartbeat.stop()
        error = report(ProcessExitError, f"{self._row.name} stopped before the task did")
        splitter = ClaimSplitter(driver=self._services.upkeep, events=self._events)
        settled, rejection = await splitter.end_process(self._row.id, self._row.name, error)
        emit_settled(self._events, settled, self._row.id, error)
        if rejection is not None:
            raise rejection
        ended = len(settled.failed) + len(settled.cancelled)
        self._events.emit(events.ProcessDeregistered(process_id=self._row.id, name=self._row.name, claims=ended))

    def _abandon_tasks(self) -> None:
        # Again, even if the database cannot be reached: a task that ended meanwhile was not settled, and must not be
        # released.
        self._host.release_after_exit(self._claims.restartable())
        for capacity in self._capacities:
            self.abandoned += capacity.abandon()
        if unwritten := len(self._services.settlers.claims()):
            self._events.emit(events.OutcomesNotWritten(count=unwritten))

    @property
    def is_busy(self) -> bool:
        """Whether tasks or hooks still run although the shutdown is complete."""
        return self.abandoned > 0 or self._lifecycle.has_running_hooks

    @property
    def _released(self) -> int:
        return sum(capacity.released for capacity in self._capacities)

    def _emit_not_deregistered(self, error: StoreError) -> None:
        who: dict[str, Any] = {"process_id": self._row.id, "name": self._row.name}
        self._events.emit(events.ProcessDeregistrationFailed(**who, error=str(error), exception=error))
