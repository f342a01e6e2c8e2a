"""Process: one OS process, one event loop, and the life of everything that services.py has built for it.

The composition root, beside supervisor.py the only place that opens task groups. Upkeep (settling, heartbeat,
maintenance) outlives the intake (workers, dispatchers, scheduler, listener): what was claimed is settled under a
beating heart.
"""

from __future__ import annotations

import asyncio
import os
from math import inf
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from anyio import CancelScope, create_task_group, current_time, move_on_after

import steady_queue
from steady_queue import events
from steady_queue.aio.context import Context
from steady_queue.aio.identity import describe, hostname, process_name
from steady_queue.aio.maintenance.splitting import REFUSED, ClaimSplitter
from steady_queue.aio.outage import Outage
from steady_queue.aio.process.lifecycle import Lifecycle, actors_of
from steady_queue.aio.process.services import Services
from steady_queue.aio.process.startup import admit, unless_stopped
from steady_queue.aio.scheduler.other_backends import CONCURRENCY
from steady_queue.aio.timing import SystemClock
from steady_queue.db import notify
from steady_queue.db.aliases import is_in_memory, queue_alias
from steady_queue.errors import ConfigurationError, ProcessExitError, StoreError
from steady_queue.events import Events
from steady_queue.store.operations.processes import NewProcess
from steady_queue.store.outcome import report

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup

    from steady_queue.aio.timing import Clock
    from steady_queue.configuration import Options

#: How long the last outcomes may take to be written when the process stops, and when it is told to quit, in seconds.
FLUSH_WITHIN, QUIT_WITHIN = 5.0, 0.5


class Process:
    """Runs its services until told to stop, and leaves nothing behind."""

    def __init__(
        self,
        options: Options,
        *,
        alias: str | None = None,
        process_id: UUID | None = None,
        supervisor_id: UUID | None = None,
        leave_to_supervisor: Callable[[set[UUID]], bool] = lambda claims: False,
        clock: Clock | None = None,
        events: Events | None = None,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self.options = options
        self.alias = alias or queue_alias()
        if is_in_memory(self.alias):
            raise ConfigurationError(f"the database {self.alias!r} is in memory: no worker can reach it")
        self.id = process_id or uuid4()
        self.supervisor_id = supervisor_id
        self.name = process_name(os.getpid(), self.id)
        self.clock = clock or SystemClock()
        self.events = events or Events()
        self.outage = Outage(clock=self.clock, events=self.events)
        #: Set when it works, or has ended without.
        self.ready = asyncio.Event()
        #: Why the process did not start to work.
        self.refusal: ConfigurationError | None = None
        #: Waited for when tasks have stopped: whoever has to leave before this process.
        self.before_sign_off: Callable[[], Coroutine[Any, Any, None]] = _nobody
        #: Called when all is written: a process of our own ends here if it would have to wait for its tasks.
        self.at_last: Callable[[], object] = lambda: None
        #: Services of whoever runs this process, which live as long as its own.
        self.companions: list[Callable[[], Coroutine[Any, Any, None]]] = []
        # Told at the end which claims still run; True when somebody will give them back after this process has ended.
        self._leave_to_supervisor = leave_to_supervisor
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._flush_within = inf
        self._stop_within: float | None = None
        self._is_quitting = False
        self._flushing = CancelScope()
        row = self._row()
        self.lifecycle = Lifecycle(list(actors_of(options, row)), events=self.events)
        self.services = Services(
            options,
            row,
            alias=self.alias,
            is_stopping=self._stop.is_set,
            leave=leave,
            context=Context(self.clock, self.events, self.outage),
        )

    def _row(self) -> NewProcess:
        metadata = describe(self._actors())
        return NewProcess(self.id, "process", self.name, os.getpid(), hostname(), self.supervisor_id, metadata)

    def _actors(self) -> list[dict[str, Any]]:
        workers = [
            {"kind": "worker", "queues": list(w.queues), "async": w.coroutines, "thread": w.threads}
            for w in self.options.workers
        ]
        others = [] if self.options.only_work else [{"kind": "dispatcher"} for _ in self.options.dispatchers]
        schedulers = [{"kind": "scheduler"}] if self.options.schedules else []
        return [*workers, *others, *schedulers]

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until told to stop; then drain, deregister and close."""
        end_local = notify.listen_locally(self.alias, self.services.wake_ups.wake_from_any_thread)
        self.services.watchdog.start()
        try:
            await self.services.orm_threads.open()
            async with create_task_group() as upkeep:
                for companion in self.companions:
                    upkeep.start_soon(companion)
                await unless_stopped(self._stop, self._admit)
                if not self._stop.is_set():
                    await self._work(upkeep)
                upkeep.cancel_scope.cancel()
        except Exception as error:
            with CancelScope(shield=True):
                await self.lifecycle.exit(error)
            raise
        finally:
            self.ready.set()
            end_local()
            self.services.watchdog.stop()
            with move_on_after(min(self._flush_within, FLUSH_WITHIN), shield=True):
                await self.services.close()

    async def _work(self, upkeep: TaskGroup) -> None:
        upkeep.start_soon(self.services.settlers.unlimited.run)
        upkeep.start_soon(self.services.settlers.limited.run)
        await unless_stopped(self._stop, self.services.heartbeat.register)
        upkeep.start_soon(self.services.heartbeat.run)
        upkeep.start_soon(self.services.maintenance.run)
        if self.services.schedulers:
            for _ in range(CONCURRENCY):
                upkeep.start_soon(self.services.other_backends.run)
        if not self._stop.is_set():
            await self._take_in()
        with CancelScope(shield=True):
            await self._drain()

    async def _admit(self) -> None:
        self.refusal = await admit(self.services.upkeep, self.alias, self.outage)
        if self.refusal is not None:
            self.stop()

    async def _take_in(self) -> None:
        await unless_stopped(self._stop, self.lifecycle.start)
        if self._stop.is_set():
            return
        async with create_task_group() as intake:
            for worker in self.services.workers:
                intake.start_soon(worker.run)
            for dispatcher in self.services.dispatchers:
                intake.start_soon(dispatcher.run)
            for scheduler in self.services.schedulers:
                intake.start_soon(scheduler.run)
            if self.services.listener is not None:
                intake.start_soon(self.services.listener.run)
            self._tell_started()
            self.ready.set()
            await self._stop.wait()
            for worker in self.services.workers:
                worker.limit_last_claim()
            intake.cancel_scope.cancel()

    def stop(self, seconds: float | None = None) -> None:
        """Stop, and let tasks run for so long, or the `shutdown_timeout`; more than once does no harm."""
        self._stop.set()
        self._flush(within=FLUSH_WITHIN)
        seconds = steady_queue.shutdown_timeout.total_seconds() if seconds is None else seconds
        self._stop_within = seconds if self._stop_within is None else min(seconds, self._stop_within)
        self.services.stopping.allow(seconds)
        self.lifecycle.allow(seconds)

    def quit(self) -> None:
        """Stop without waiting for tasks: what has ended is written if that takes no longer than a moment."""
        if not self._is_quitting:
            self._is_quitting = True
            self.events.emit(events.ProcessQuitting(name=self.name, running=len(self.services.stopping.running)))
        self.stop(0.0)
        self._flush(within=QUIT_WITHIN)
        self.lifecycle.hurry()

    def retire(self) -> None:
        """Take no more tasks, and stop when those that run have ended and are settled, however long that takes."""
        self._stop.set()

    def _flush(self, *, within: float) -> None:
        self._flush_within = min(self._flush_within, within)
        self._flushing.deadline = min(self._flushing.deadline, current_time() + within)
        self.services.other_backends.limit_drain(within)

    def stop_by_signal(self) -> None:
        """The same as `stop` from the handler of a signal, which is obeyed even if a task blocks the loop for ever."""
        self.services.watchdog.leave_after(steady_queue.shutdown_timeout.total_seconds() + 1.0)
        self._loop.call_soon_threadsafe(self.stop)

    def quit_by_signal(self) -> None:
        self.services.watchdog.leave_after(QUIT_WITHIN)
        self._loop.call_soon_threadsafe(self.quit)

    async def _drain(self) -> None:
        """Stop the tasks, settle what ended, and leave."""
        self.ready.set()
        running, before = len(self.services.stopping.running), self.services.stopping.released
        self.events.emit(events.ProcessStopping(name=self.name, running=running, seconds=self._stop_within))
        async with create_task_group() as leaving:
            # Beside the tasks that are left: a hook that takes long costs them nothing.
            leaving.start_soon(self.lifecycle.stop)
            leaving.start_soon(self.services.other_backends.drain)
            await self.services.stopping.drain()
        await self.before_sign_off()
        with CancelScope(deadline=current_time() + self._flush_within) as self._flushing:
            await self.services.settlers.unlimited.drained.wait()
            await self.services.settlers.limited.drained.wait()
            try:
                await self._reconcile()
                await self._sign_off()
            except StoreError as error:
                # Nothing is lost: without a heartbeat others will find what is left.
                who: dict[str, Any] = {"process_id": self.id, "name": self.name}
                self.events.emit(events.ProcessDeregistrationFailed(**who, error=str(error), exception=error))
        # Once more, also when the database is away: what has ended by now was not written, and must not run again.
        self._leave_to_supervisor(self.services.claims.unfinished())
        self.services.stopping.abandon()
        if unwritten := len(self.services.settlers.claims()):
            self.events.emit(events.OutcomesNotWritten(count=unwritten))
        released = self.services.stopping.released - before
        self.events.emit(events.ProcessStopped(name=self.name, released=released, abandoned=self.abandoned))
        await self.lifecycle.exit()
        self.at_last()

    async def _reconcile(self) -> None:
        try:
            await self.services.reconciliation.reconcile()
        except REFUSED as error:
            # What still runs must be signed off all the same.
            step: dict[str, Any] = {"step": "reconciling claims", "times": 1}
            self.events.emit(events.MaintenanceStepFailed(**step, error=str(error), exception=error))

    async def _sign_off(self) -> None:
        """The last statement: whatever still runs has failed, its slot is free, and this process is no more.

        A supervisor that still lives does it instead, after this process has ended, and gives those tasks back.
        """
        running = self.services.claims.unfinished()
        if not running or not self._leave_to_supervisor(running):
            await self.services.heartbeat.rest()
            error = report(ProcessExitError, f"{self.name} stopped before the task did")
            upkeep = self.services.upkeep
            splitter = ClaimSplitter(driver=upkeep, events=self.events)
            fates, refusal = await splitter.end_process(self.id, self.name, error)
            failed = list(fates.failed)
            if failed:
                self.events.emit(
                    events.JobsFailed(process_id=self.id, job_ids=failed, count=len(failed), error=error.message)
                )
            if refusal is not None:
                raise refusal
            self.events.emit(events.ProcessDeregistered(process_id=self.id, name=self.name, claims=len(failed)))

    @property
    def abandoned(self) -> int:
        """How many tasks still ran when the process had stopped."""
        return self.services.stopping.abandoned

    def _tell_started(self) -> None:
        workers = self.options.workers
        self.events.emit(
            events.ProcessStarted(
                name=self.name,
                database=f"{self.services.hot.sql.name} ({self.alias})",
                queues=", ".join(dict.fromkeys(name for worker in workers for name in worker.queues)),
                coroutines=sum(worker.coroutines for worker in workers),
                threads=sum(worker.threads for worker in workers),
            )
        )


async def _nobody() -> None:
    pass
