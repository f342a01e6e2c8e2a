"""Services: builds everything that runs in one process. It starts nothing: process.py does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import steady_queue
from steady_queue.aio.dispatcher import Dispatcher
from steady_queue.aio.lease import Lease
from steady_queue.aio.listener import Listener
from steady_queue.aio.maintenance.batch_splitting import ClaimSplitter
from steady_queue.aio.maintenance.claim_reconciliation import Reconciliation
from steady_queue.aio.maintenance.maintenance import Maintenance, longest_pause_seconds
from steady_queue.aio.maintenance.steps import StepDriver
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.aio.process.connections import Connections
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.aio.process.lost_lease import LostLease
from steady_queue.aio.process.measurements import Measurements
from steady_queue.aio.process.requests import Requests
from steady_queue.aio.process.statistics_writer import StatisticsWriter
from steady_queue.aio.process.task_services import TaskServices
from steady_queue.aio.process.watchdog import Watchdog
from steady_queue.aio.scheduler.other_backends import OtherBackends
from steady_queue.aio.scheduler.scheduler import Scheduler
from steady_queue.aio.wake_ups import WakeUps
from steady_queue.aio.worker.awaited import AwaitedJobs
from steady_queue.aio.worker.capacity import Capacity
from steady_queue.aio.worker.claims import Claims
from steady_queue.aio.worker.control.cancellations import Cancellations
from steady_queue.aio.worker.control.live_stacks import LiveStacks
from steady_queue.aio.worker.executor import Executor
from steady_queue.aio.worker.polling import LastPoll, PollingInterval
from steady_queue.aio.worker.queues import QueuePlan
from steady_queue.aio.worker.reporting.reports import Reports
from steady_queue.aio.worker.reporting.task_counts import TaskCounts
from steady_queue.aio.worker.settler import Settler, Settlers
from steady_queue.aio.worker.unknown_tasks import UnknownTasks
from steady_queue.aio.worker.worker import Worker
from steady_queue.configuration import alive_threshold
from steady_queue.db.aliases import connection_parameters
from steady_queue.db.notify import CANCELLATIONS, DISPATCHED, DUE_SOON, REQUESTS
from steady_queue.jobs.registry import registry
from steady_queue.recurring.definitions import collect_recurrences
from steady_queue.store.operations.notify import AWAITED, FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.context import Context
    from steady_queue.aio.deadline_driver import DeadlineDriver
    from steady_queue.aio.process.deadlines import Deadlines
    from steady_queue.aio.process.host import Host
    from steady_queue.aio.timing import WakeEvent
    from steady_queue.aio.worker.control.timed_calls import WatchDeadline
    from steady_queue.configuration import Dispatcher as DispatcherOptions
    from steady_queue.configuration import Options
    from steady_queue.configuration import Worker as WorkerOptions
    from steady_queue.store.operations.processes.registration import NewProcess


class Services:
    """The services of the process that has this row, in the order in which they need each other."""

    def __init__(
        self,
        options: Options,
        row: NewProcess,
        *,
        alias: str,
        host: Host,
        deadlines: Deadlines,
        on_stuck_thread: Callable[[], None],
        on_stop_request: Callable[[], None],
        context: Context,
    ) -> None:
        self.options = options
        self.row = row
        self.alias = alias
        self.context = context
        self._host = host
        self._deadlines = deadlines
        self._on_stuck_thread = on_stuck_thread
        self.lease = Lease(alive_seconds=alive_threshold().total_seconds(), clock=context.clock)
        self.connections = Connections(alias, self.lease)
        self.hot, self.settling = self.connections.hot, self.connections.settling
        self.upkeep = self.connections.upkeep
        self.wake_ups = WakeUps(self.settling, deadlines.requested.is_set)
        self.cancel_wake_ups = WakeUps(self.settling, deadlines.requested.is_set)
        self.awaited = AwaitedJobs(alias, driver=self.settling, clock=context.clock)
        self.listener = self._build_listener()
        self.is_listening = self.listener.is_listening if self.listener is not None else (lambda: False)
        threads = max([worker.orm_lanes for worker in options.workers], default=1)
        self.orm_threads = OrmThreads(threads, events=context.events)
        self.unknown_tasks = UnknownTasks(process_id=row.id, driver=self.upkeep, context=context)
        self.reports = Reports(
            driver=self.upkeep, known_claims=self._known_claims, awaited=self.awaited, context=context
        )
        self.task_services = TaskServices(self.reports, deadlines)
        self.settlers = Settlers(
            self._build_settler("settler", self.settling), self._build_settler("limited settler", self.upkeep), host
        )
        self.counts = TaskCounts(lambda: self.claims.running_jobs())
        self.statistics = StatisticsWriter(process_id=row.id, counts=self.counts, driver=self.upkeep, context=context)
        wake_events = [self.wake_ups.add_event() for _ in options.workers]
        capacities = [self._build_capacity(*pair) for pair in zip(options.workers, wake_events, strict=True)]
        self.claims = Claims(lease=self.lease, capacities=capacities, settlers=self.settlers)
        self.requests = Requests(
            process=row,
            driver=self.settling,
            stacks=LiveStacks(self.claims),
            stop=on_stop_request,
            forward=host.forward_request,
            context=context,
        )
        self.cancellations = self._build_cancellations(capacities)
        self.lost_lease = LostLease(
            capacities=capacities, claims=self.claims, events=context.events, exit_now=host.exit_now
        )
        step_driver = StepDriver(self.upkeep)
        splitter = ClaimSplitter(driver=step_driver, events=context.events)
        self.reconciliation = self._build_reconciliation(step_driver, splitter)
        self.workers = [
            self._build_worker(number, capacity, wake_event)
            for number, (capacity, wake_event) in enumerate(zip(capacities, wake_events, strict=True))
        ]
        self.dispatchers = [] if options.only_work else [self._build_dispatcher(each) for each in options.dispatchers]
        self.other_backends = OtherBackends(events=context.events)
        self.schedulers = [self._build_scheduler()] if options.schedules else []
        self.last_poll = LastPoll(
            self.workers, [*self.dispatchers, *self.schedulers], is_stopping=deadlines.requested.is_set
        )
        self.watchdog = self._build_watchdog()
        self.measurements = Measurements(capacities, self.watchdog.take_lag)
        self.heartbeat = self._build_heartbeat()
        self.maintenance = self._build_maintenance(step_driver, splitter)

    def _build_listener(self) -> Listener | None:
        if not (self.hot.sql.can_notify and steady_queue.notify):
            return None
        return Listener(
            parameters=connection_parameters(self.alias),
            driver=self.settling,
            wake=self.wake_ups.wake,
            announcements={
                AWAITED: self.awaited.announce_awaited,
                FOLLOWED: self.awaited.announce_followed,
                CANCELLATIONS: lambda _: self.cancel_wake_ups.wake(),
                REQUESTS: lambda _: self.requests.wake(),
                DISPATCHED: lambda _: self.wake_ups.wake_own_workers(),
                DUE_SOON: lambda _: self.wake_ups.wake_own_dispatchers(),
            },
            context=self.context,
        )

    def _build_settler(self, name: str, driver: DeadlineDriver) -> Settler:
        return Settler(
            name=name,
            driver=driver,
            process_name=self.row.name,
            wake_all=self.wake_ups.wake_all,
            wake_dispatchers=self.wake_ups.wake_dispatchers,
            awaited=self.awaited,
            unknown_tasks=self.unknown_tasks,
            reports=self.reports,
            context=self.context,
        )

    def _build_capacity(self, options: WorkerOptions, wake_event: WakeEvent) -> Capacity:
        return Capacity(
            coroutines=options.coroutines,
            threads=options.threads,
            build_executor=self._build_executor,
            orm_threads=self.orm_threads,
            settle=self.settlers.put,
            wake_worker=wake_event.wake,
            on_stuck_thread=self._on_stuck_thread,
            counts=self.counts,
            events=self.context.events,
        )

    def _build_executor(self, watch_deadline: WatchDeadline) -> Executor:
        return Executor(
            registry=registry,
            process_name=self.row.name,
            watch_deadline=watch_deadline,
            services=self.task_services,
        )

    def _known_claims(self) -> set[UUID]:
        # Claims need the settlers, and the settlers need the reports, which ask for the claims.
        return self.claims.known()

    def _build_cancellations(self, capacities: Sequence[Capacity]) -> Cancellations:
        return Cancellations(
            process_id=self.row.id,
            supervisor_id=self.row.supervisor_id,
            capacities=capacities,
            claims=self.claims,
            driver=self.settling,
            wake_event=self.cancel_wake_ups.add_event(),
            # The listener stops with the intake, at the first request for a shutdown.
            is_listening=lambda: self.is_listening() and not self._deadlines.requested.is_set(),
            on_process_request=self.requests.wake,
            context=self.context,
        )

    def _build_reconciliation(self, driver: StepDriver, splitter: ClaimSplitter) -> Reconciliation:
        return Reconciliation(
            process=self.row,
            claims=self.claims,
            driver=driver,
            splitter=splitter,
            on_lost=self.lost_lease.stop,
            wake_all=self.wake_ups.wake_all,
            events=self.context.events,
        )

    def _build_worker(self, number: int, capacity: Capacity, wake_event: WakeEvent) -> Worker:
        options = self.options.workers[number]
        return Worker(
            name=f"worker {number + 1}",
            process_id=self.row.id,
            plan=QueuePlan(options.selection, driver=self.hot, clock=self.context.clock),
            capacity=capacity,
            claims=self.claims,
            awaited=self.awaited,
            driver=self.hot,
            wake_event=wake_event,
            polling=PollingInterval(options.polling_interval.total_seconds(), self.is_listening),
            reconcile=self.reconciliation.reconcile,
            context=self.context,
        )

    def _build_dispatcher(self, options: DispatcherOptions) -> Dispatcher:
        return Dispatcher(
            batch_size=options.batch_size,
            interval_seconds=options.polling_interval.total_seconds(),
            is_listening=self.is_listening,
            driver=self.upkeep,
            wake_event=self.wake_ups.add_dispatcher_event(),
            wake_workers=self.wake_ups.wake_workers,
            context=self.context,
        )

    def _build_scheduler(self) -> Scheduler:
        return Scheduler(
            find_static=collect_recurrences(self.options).entries,
            driver=self.upkeep,
            other_backends=self.other_backends,
            wake_all=self.wake_ups.wake_all,
            context=self.context,
        )

    def _build_heartbeat(self) -> Heartbeat:
        return Heartbeat(
            process=self.row,
            interval=steady_queue.process_heartbeat_interval.total_seconds(),
            driver=self.settling,
            lease=self.lease,
            on_lease_lost=self.lost_lease.stop_all,
            on_pruned=self.reconciliation.reconcile_after_prune,
            on_request=self.requests.wake,
            polled_ago=self.last_poll.seconds_ago,
            measure=self.measurements.take,
            on_success=self.statistics.after_heartbeat,
            context=self.context,
        )

    def _build_maintenance(self, driver: StepDriver, splitter: ClaimSplitter) -> Maintenance:
        return Maintenance(
            process=self.row,
            reconciliation=self.reconciliation,
            driver=driver,
            splitter=splitter,
            may_prune=lambda: self.heartbeat.is_steady,
            on_request=self.requests.wake,
            wake_all=self.wake_ups.wake_all,
            promotes=all(dispatcher.concurrency_maintenance for dispatcher in self.options.dispatchers),
            max_interval_seconds=longest_pause_seconds(self.options.dispatchers),
            context=self.context,
        )

    def _build_watchdog(self) -> Watchdog:
        return Watchdog(
            lease=self.lease,
            deadlines=self._deadlines,
            name_of=self.claims.name_of,
            on_lease_lost=self.lost_lease.stop_all,
            events=self.context.events,
            exit_now=self._host.exit_now,
        )

    async def close(self) -> None:
        for worker in self.workers:
            worker.capacity.close()
        self.orm_threads.shutdown()
        await self.connections.close()
