"""Process: the composition root. One OS process, one event loop, and everything that runs in it.

The only place that opens task groups. Upkeep (settling, heartbeat, maintenance) outlives the intake (workers,
dispatchers, listener): what was claimed is settled under a beating heart.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from anyio import CancelScope, create_task_group, current_time, move_on_after

import steady_queue
from steady_queue import wake
from steady_queue.aio import events
from steady_queue.aio.bell import Bell
from steady_queue.aio.clock import SystemClock
from steady_queue.aio.connections import Connections
from steady_queue.aio.dispatcher import Dispatcher
from steady_queue.aio.events import Events
from steady_queue.aio.executor import Executor
from steady_queue.aio.heartbeat import Heartbeat
from steady_queue.aio.identity import describe, hostname
from steady_queue.aio.lanes import OrmLanes
from steady_queue.aio.maintenance import Maintenance
from steady_queue.aio.outage import Outage
from steady_queue.aio.pace import LISTENING, Pace
from steady_queue.aio.queues import QueuePlan
from steady_queue.aio.reports import report
from steady_queue.aio.settler import Settler
from steady_queue.aio.slots import Slots
from steady_queue.aio.starting import admit, unless_stopped
from steady_queue.aio.stopping import Stopping
from steady_queue.aio.trust import Trust
from steady_queue.aio.wakeup import Wakeup
from steady_queue.aio.watchdog import Watchdog
from steady_queue.aio.worker import Worker
from steady_queue.databases import is_in_memory, parameters, queue_alias
from steady_queue.errors import ConfigurationError, StoreError
from steady_queue.processes import ProcessExitError
from steady_queue.registry import registry
from steady_queue.store.burial import end
from steady_queue.store.notify import notify
from steady_queue.store.process import NewProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup

    from steady_queue.aio.clock import Clock
    from steady_queue.configuration import Options
    from steady_queue.store.outcome import Outcome

#: How long the last outcomes may take to be written when the process stops, and when it is told to quit, in seconds.
FLUSH_WITHIN, QUIT_WITHIN = 5.0, 0.5


class Process:
    """Builds the services of one process, runs them until told to stop, and leaves nothing behind."""

    def __init__(
        self,
        options: Options,
        *,
        alias: str | None = None,
        process_id: UUID | None = None,
        supervisor_id: UUID | None = None,
        is_supervised: Callable[[], bool] = lambda: False,
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
        self.name = f"{hostname()}:{os.getpid()}:{self.id.hex[:8]}"
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
        # Asked at the end: a supervisor that still lives gives back what could not be stopped.
        self._is_supervised = is_supervised
        self._leave = leave
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._claiming = asyncio.Lock()
        self._flush_within = FLUSH_WITHIN
        self._flushing = CancelScope()
        alive = steady_queue.process_alive_threshold.total_seconds()
        self.trust = Trust(alive_seconds=alive, clock=self.clock)
        self.connections = Connections(self.alias, self.trust)
        self.hot, self.settling = self.connections.hot, self.connections.settling
        self.upkeep = self.connections.upkeep
        self._build()

    # -- what it is made of -------------------------------------------------------------------------------------------

    def _build(self) -> None:
        common: dict[str, Any] = {"clock": self.clock, "events": self.events, "outage": self.outage}
        self.lanes = OrmLanes(max([worker.orm_lanes for worker in self.options.workers], default=1))
        settling: dict[str, Any] = {"worker_id": self.name, "made_ready": self._made_ready, **common}
        self.settler = Settler(name="settler", driver=self.settling, **settling)
        self.limited_settler = Settler(name="limited settler", driver=self.upkeep, **settling)
        self.heartbeat = Heartbeat(
            process=self._row(),
            interval=steady_queue.process_heartbeat_interval.total_seconds(),
            driver=self.settling,
            trust=self.trust,
            lost_trust=lambda: self.stopping.lose_trust(),
            buried=lambda: self.maintenance.reconcile(buried=True),
            polled_ago=self._polled_ago,
            **common,
        )
        self.wakeup = self._listener()
        self.workers = [self._worker(number) for number in range(len(self.options.workers))]
        self.dispatchers = [] if self.options.only_work else [self._dispatcher(d) for d in self.options.dispatchers]
        self.maintenance = Maintenance(
            process_id=self.id,
            worker_id=self.name,
            driver=self.upkeep,
            may_bury=lambda: self.heartbeat.is_steady,
            known_claims=self.known_claims,
            running_claims=self.running_claims,
            taken=lambda claims, buried: self.stopping.lose(claims, buried=buried),
            claiming=self._claiming,
            made_ready=self._made_ready,
            promotes=all(dispatcher.concurrency_maintenance for dispatcher in self.options.dispatchers),
            events=self.events,
            outage=self.outage,
        )
        self.stopping = Stopping(
            name=self.name,
            slots=[worker.slots for worker in self.workers],
            ended=self._ended,
            trust=self.trust,
            clock=self.clock,
            events=self.events,
            leave=self._leave,
        )
        self.watchdog = Watchdog(
            trust=self.trust,
            name_of=self._name_of,
            lost_trust=self.stopping.lose_trust,
            events=self.events,
            leave=self._leave,
        )

    def _row(self) -> NewProcess:
        metadata = describe(self._actors())
        return NewProcess(self.id, "process", self.name, os.getpid(), hostname(), self.supervisor_id, metadata)

    def _listener(self) -> Wakeup | None:
        if not (self.hot.sql.can_notify and wake.is_notifying):
            return None
        return Wakeup(
            parameters=parameters(self.alias).values,
            driver=self.settling,
            ring=self.ring,
            events=self.events,
            outage=self.outage,
        )

    def _worker(self, number: int) -> Worker:
        options = self.options.workers[number]
        bell = Bell()
        slots = Slots(
            coroutines=options.coroutines,
            threads=options.threads,
            executor=Executor(registry=registry, worker_id=self.name),
            lanes=self.lanes,
            ended=self._ended,
            freed=bell.ring,
        )
        return Worker(
            name=f"worker {number + 1}",
            process_id=self.id,
            plan=QueuePlan(list(options.queues), driver=self.hot, clock=self.clock),
            slots=slots,
            driver=self.hot,
            bell=bell,
            pace=Pace(options.polling_interval.total_seconds(), self._hears),
            may_claim=self._may_claim,
            trust=self.trust,
            claiming=self._claiming,
            reconcile=lambda: self.maintenance.reconcile(),
            clock=self.clock,
            events=self.events,
            outage=self.outage,
        )

    def _dispatcher(self, options: Any) -> Dispatcher:
        interval = options.polling_interval.total_seconds()
        return Dispatcher(
            batch_size=options.batch_size,
            longest_sleep=lambda: max(interval, LISTENING) if self._hears() else interval,
            driver=self.upkeep,
            bell=Bell(),
            made_ready=self._made_ready,
            clock=self.clock,
            events=self.events,
            outage=self.outage,
        )

    def _actors(self) -> list[dict[str, Any]]:
        workers = [
            {"kind": "worker", "queues": list(w.queues), "async": w.coroutines, "thread": w.threads}
            for w in self.options.workers
        ]
        others = [] if self.options.only_work else [{"kind": "dispatcher"} for _ in self.options.dispatchers]
        return [*workers, *others]

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until told to stop; then drain, deregister and close."""
        end_local = wake.listen_locally(self.alias, self._ring_from_anywhere)
        self.watchdog.start()
        try:
            await self.lanes.open()
            async with create_task_group() as upkeep:
                for companion in self.companions:
                    upkeep.start_soon(companion)
                await unless_stopped(self._stop, self._admit)
                if not self._stop.is_set():
                    await self._work(upkeep)
                upkeep.cancel_scope.cancel()
        finally:
            self.ready.set()
            end_local()
            self.watchdog.stop()
            with move_on_after(self._flush_within, shield=True):
                await self._close()

    async def _work(self, upkeep: TaskGroup) -> None:
        upkeep.start_soon(self.settler.run)
        upkeep.start_soon(self.limited_settler.run)
        await unless_stopped(self._stop, self.heartbeat.register)
        upkeep.start_soon(self.heartbeat.run)
        upkeep.start_soon(self.maintenance.run)
        if not self._stop.is_set():
            await self._take_in()
        with CancelScope(shield=True):
            await self._drain()

    async def _admit(self) -> None:
        self.refusal = await admit(self.upkeep, self.alias, self.outage)
        if self.refusal is not None:
            self.stop()

    async def _take_in(self) -> None:
        async with create_task_group() as intake:
            for worker in self.workers:
                intake.start_soon(worker.run)
            for dispatcher in self.dispatchers:
                intake.start_soon(dispatcher.run)
            if self.wakeup is not None:
                intake.start_soon(self.wakeup.run)
            self._tell_started()
            self.ready.set()
            await self._stop.wait()
            for worker in self.workers:
                worker.hurry()
            intake.cancel_scope.cancel()

    def stop(self, seconds: float | None = None) -> None:
        """Stop, and let tasks run for so long, or the `shutdown_timeout`; more than once does no harm."""
        self._stop.set()
        self.stopping.allow(steady_queue.shutdown_timeout.total_seconds() if seconds is None else seconds)

    def quit(self) -> None:
        """Stop without waiting for tasks: what has ended is written if that takes no longer than a moment."""
        self._flush_within = QUIT_WITHIN
        self._flushing.deadline = min(self._flushing.deadline, current_time() + QUIT_WITHIN)
        self.stop(0.0)

    def retire(self) -> None:
        """Take no more tasks, and stop when those that run have ended, however long that takes."""
        self._stop.set()

    def stop_by_signal(self) -> None:
        """The same as `stop` from the handler of a signal, which is obeyed even if a task blocks the loop for ever."""
        self.watchdog.leave_after(steady_queue.shutdown_timeout.total_seconds() + 1.0)
        self._loop.call_soon_threadsafe(self.stop)

    def quit_by_signal(self) -> None:
        self.watchdog.leave_after(QUIT_WITHIN)
        self._loop.call_soon_threadsafe(self.quit)

    async def _drain(self) -> None:
        """Stop the tasks, settle what ended, and leave."""
        self.ready.set()
        running, before = len(self.stopping.running), self.stopping.released
        self.events.tell(events.ProcessStopping(name=self.name, running=running))
        await self.stopping.drain()
        await self.before_sign_off()
        with CancelScope(deadline=current_time() + self._flush_within) as self._flushing:
            await self.settler.drained.wait()
            await self.limited_settler.drained.wait()
            try:
                await self.maintenance.reconcile()
                await self._sign_off()
            except StoreError as error:
                # Nothing is lost: without a heartbeat others will find what is left.
                self.events.tell(events.RuntimeFault(where="stopping", error=str(error)))
        self.stopping.abandon()
        if unwritten := len(self.settler.known() | self.limited_settler.known()):
            self.events.tell(events.OutcomesUnwritten(count=unwritten))
        released = self.stopping.released - before
        self.events.tell(events.ProcessStopped(name=self.name, released=released, abandoned=self.abandoned))
        self.at_last()

    async def _sign_off(self) -> None:
        """The last statement: whatever still runs has failed, its slot is free, and this process is no more.

        A supervisor that still lives does it instead, after this process has ended, and gives those tasks back.
        """
        if not (self.stopping.running and self._is_supervised()):
            error = report(ProcessExitError, f"{self.name} stopped before the task did")
            await self.upkeep.run(end(self.upkeep.sql, self.id, self.name, error))

    async def _close(self) -> None:
        for worker in self.workers:
            worker.slots.close()
        self.lanes.close()
        await self.connections.close()

    @property
    def abandoned(self) -> int:
        """How many tasks still ran when the process had stopped."""
        return self.stopping.abandoned

    # -- what services ask it -----------------------------------------------------------------------------------------

    def known_claims(self) -> set[UUID]:
        """Every claim that this process knows: running, waiting to be settled, being settled."""
        return self.settler.known() | self.limited_settler.known() | self.running_claims()

    def running_claims(self) -> set[UUID]:
        """The claims whose jobs run now."""
        return {claim_id for worker in self.workers for claim_id in worker.slots.running}

    def ring(self) -> None:
        """Wake whoever could find something to do."""
        for worker in self.workers:
            worker.bell.ring()
        for dispatcher in self.dispatchers:
            dispatcher.bell.ring()

    def _ring_from_anywhere(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ring)

    async def _made_ready(self) -> None:
        """Jobs of anybody became ready: wake our own workers and those of others."""
        self.ring()
        if wake.is_notifying and self.settling.sql.can_notify:
            with suppress(StoreError):  # only a hint, and what it tells of is done
                await self.settling.run(notify(self.settling.sql))

    def _polled_ago(self) -> float | None:
        """How long ago the last of its workers looked for work; without workers, the last of its dispatchers."""
        if self._stop.is_set():
            return 0.0  # it looks for nothing any more, however long what runs may take
        ages = [pollster.polled_ago for pollster in self.workers or self.dispatchers]
        return None if None in ages else max(filter(None, ages), default=0.0)

    def _hears(self) -> bool:
        return self.wakeup is not None and self.wakeup.hears

    def _may_claim(self) -> bool:
        return self.trust.is_held and not self.settler.is_full and not self.limited_settler.is_full

    def _ended(self, outcome: Outcome) -> None:
        settler = self.settler if outcome.claim.concurrency_key is None else self.limited_settler
        settler.put(outcome)

    def _name_of(self, task: asyncio.Task[object] | None) -> str:
        for running in self.stopping.running:
            if running.task is task:
                return f"{running.claim.task_path} ({running.claim.job_id})"
        return task.get_name() if task is not None else "a callback"

    def _tell_started(self) -> None:
        workers = self.options.workers
        self.events.tell(
            events.ProcessStarted(
                name=self.name,
                database=f"{self.hot.sql.name} ({self.alias})",
                queues=", ".join(dict.fromkeys(name for worker in workers for name in worker.queues)),
                coroutines=sum(worker.coroutines for worker in workers),
                threads=sum(worker.threads for worker in workers),
            )
        )


async def _nobody() -> None:
    pass
