"""Services: everything that runs in one process, built and tied together. It starts nothing: process.py does."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import steady_queue
from steady_queue.aio.dispatcher import Dispatcher
from steady_queue.aio.lease import Lease
from steady_queue.aio.listener import Listener
from steady_queue.aio.maintenance.maintenance import Maintenance
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.aio.process.connections import Connections
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.aio.process.shutdown import Stopping
from steady_queue.aio.process.watchdog import Watchdog
from steady_queue.aio.scheduler.other_backends import OtherBackends
from steady_queue.aio.scheduler.scheduler import Scheduler
from steady_queue.aio.timing import WakeEvent
from steady_queue.aio.worker.capacity import Capacity
from steady_queue.aio.worker.executor import Executor
from steady_queue.aio.worker.polling import LISTENING_SECONDS, PollingInterval
from steady_queue.aio.worker.queues import QueuePlan
from steady_queue.aio.worker.settler import Settler
from steady_queue.aio.worker.worker import Worker
from steady_queue.configuration import alive_threshold
from steady_queue.db import notify as wake
from steady_queue.db.aliases import parameters
from steady_queue.errors import StoreError
from steady_queue.jobs.registry import registry
from steady_queue.recurring.definitions import wanted
from steady_queue.store.operations.notify import notify

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock
    from steady_queue.configuration import Options
    from steady_queue.events import Events
    from steady_queue.store.operations.processes import NewProcess
    from steady_queue.store.outcome import Outcome


class Services:
    """The services of the process that has this row, and what they ask of each other."""

    def __init__(
        self,
        options: Options,
        row: NewProcess,
        *,
        alias: str,
        is_stopping: Callable[[], bool],
        leave: Callable[[int], object],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self.options = options
        self.row = row
        self.alias = alias
        self.clock = clock
        self.events = events
        self.outage = outage
        #: Called with each claim whose task has ended, if somebody wants to know.
        self.told_of_end: Callable[[UUID], None] | None = None
        self._is_stopping = is_stopping
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._claiming = asyncio.Lock()
        self.lease = Lease(alive_seconds=alive_threshold().total_seconds(), clock=clock)
        self.connections = Connections(alias, self.lease)
        self.hot, self.settling = self.connections.hot, self.connections.settling
        self.upkeep = self.connections.upkeep
        self._build(row)

    def _build(self, row: NewProcess) -> None:
        common: dict[str, Any] = {"clock": self.clock, "events": self.events, "outage": self.outage}
        threads = max([worker.orm_lanes for worker in self.options.workers], default=1)
        self.orm_threads = OrmThreads(threads, events=self.events)
        settling: dict[str, Any] = {"worker_id": self.row.name, "made_ready": self.made_ready, **common}
        self.settler = Settler(name="settler", driver=self.settling, **settling)
        self.limited_settler = Settler(name="limited settler", driver=self.upkeep, **settling)
        self.heartbeat = Heartbeat(
            process=row,
            interval=steady_queue.process_heartbeat_interval.total_seconds(),
            driver=self.settling,
            trust=self.lease,
            lost_trust=lambda: self.stopping.lose_trust(),
            buried=lambda: self.maintenance.reconcile(buried=True),
            polled_ago=self.polled_ago,
            **common,
        )
        self.listener = self._listener()
        self.workers = [self._worker(number) for number in range(len(self.options.workers))]
        self.dispatchers = [] if self.options.only_work else [self._dispatcher(d) for d in self.options.dispatchers]
        self.other_backends = OtherBackends(events=self.events)
        self.schedulers = [self._scheduler()] if self.options.schedules else []
        self.maintenance = Maintenance(
            process=row,
            driver=self.upkeep,
            may_bury=lambda: self.heartbeat.is_steady,
            known_claims=self.known_claims,
            running_claims=self.running_claims,
            taken=lambda claims, buried: self.stopping.lose(claims, buried=buried),
            claiming=self._claiming,
            made_ready=self.made_ready,
            promotes=all(dispatcher.concurrency_maintenance for dispatcher in self.options.dispatchers),
            at_most=min(
                (
                    dispatcher.concurrency_maintenance_interval.total_seconds()
                    for dispatcher in self.options.dispatchers
                    if dispatcher.concurrency_maintenance
                ),
                default=math.inf,
            ),
            **common,
        )
        self.stopping = Stopping(
            name=self.row.name,
            slots=[worker.capacity for worker in self.workers],
            ended=self._ended,
            trust=self.lease,
            clock=self.clock,
            events=self.events,
            leave=self._leave,
        )
        self.watchdog = Watchdog(
            trust=self.lease,
            name_of=self._name_of,
            lost_trust=self.stopping.lose_trust,
            events=self.events,
            leave=self._leave,
        )

    def _listener(self) -> Listener | None:
        if not (self.hot.sql.can_notify and wake.is_notifying):
            return None
        return Listener(
            parameters=parameters(self.alias).values,
            driver=self.settling,
            ring=self.ring,
            events=self.events,
            outage=self.outage,
        )

    def _worker(self, number: int) -> Worker:
        options = self.options.workers[number]
        bell = WakeEvent()
        slots = Capacity(
            coroutines=options.coroutines,
            threads=options.threads,
            executor=Executor(registry=registry, worker_id=self.row.name),
            orm_threads=self.orm_threads,
            ended=self._ended,
            freed=bell.wake,
        )
        return Worker(
            name=f"worker {number + 1}",
            process_id=self.row.id,
            plan=QueuePlan(list(options.queues), driver=self.hot, clock=self.clock),
            slots=slots,
            driver=self.hot,
            bell=bell,
            pace=PollingInterval(options.polling_interval.total_seconds(), self.is_listening),
            may_claim=self._may_claim,
            trust=self.lease,
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
            longest_sleep=lambda: max(interval, LISTENING_SECONDS) if self.is_listening() else interval,
            driver=self.upkeep,
            bell=WakeEvent(),
            made_ready=self.made_ready,
            clock=self.clock,
            events=self.events,
            outage=self.outage,
        )

    def _scheduler(self) -> Scheduler:
        return Scheduler(
            static=wanted(self.options).entries,
            driver=self.upkeep,
            elsewhere=self.other_backends,
            made_ready=self.made_ready,
            clock=self.clock,
            events=self.events,
            outage=self.outage,
        )

    async def close(self) -> None:
        for worker in self.workers:
            worker.capacity.close()
        self.orm_threads.shutdown()
        await self.connections.close()

    # -- what they ask of each other ----------------------------------------------------------------------------------

    def known_claims(self) -> set[UUID]:
        """Every claim that this process knows: running, waiting to be settled, being settled."""
        return self.settler.known() | self.limited_settler.known() | self.running_claims()

    def running_claims(self) -> set[UUID]:
        """The claims whose jobs run now."""
        return {claim_id for worker in self.workers for claim_id in worker.capacity.running}

    def unfinished_claims(self) -> set[UUID]:
        """Those of them that have certainly not ended. May be asked from any thread."""
        return {claim_id for worker in self.workers for claim_id in worker.capacity.unfinished()}

    def ring(self) -> None:
        """Wake whoever could find something to do."""
        for worker in self.workers:
            worker.bell.wake()
        for dispatcher in self.dispatchers:
            dispatcher.bell.wake()

    def ring_from_anywhere(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ring)

    async def made_ready(self) -> None:
        """Jobs of anybody became ready: wake our own workers and those of others."""
        self.ring()
        if wake.is_notifying and self.settling.sql.can_notify:
            with suppress(StoreError):  # only a hint, and what it tells of is done
                await self.settling.run(notify(self.settling.sql))

    def polled_ago(self) -> float | None:
        """How long ago the last of its workers looked for work; without workers, the last of its others."""
        if self._is_stopping():
            return 0.0  # it looks for nothing any more, however long what runs may take
        others: list[Dispatcher | Scheduler] = [*self.dispatchers, *self.schedulers]
        ages = [pollster.polled_ago for pollster in self.workers or others]
        return None if None in ages else max(filter(None, ages), default=0.0)

    def is_listening(self) -> bool:
        return self.listener is not None and self.listener.hears

    def _may_claim(self) -> bool:
        return self.lease.is_held and not self.settler.is_full and not self.limited_settler.is_full

    def _ended(self, outcome: Outcome) -> None:
        if self.told_of_end is not None:
            self.told_of_end(outcome.claim.claim_id)
        settler = self.settler if outcome.claim.concurrency_key is None else self.limited_settler
        settler.put(outcome)

    def _name_of(self, task: asyncio.Task[object] | None) -> str:
        for running in self.stopping.running:
            if running.task is task:
                return f"{running.claim.task_path} ({running.claim.job_id})"
        return task.get_name() if task is not None else "a callback"
