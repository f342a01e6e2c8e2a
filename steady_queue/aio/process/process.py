"""Process: one OS process, one event loop, and the life of everything that services.py has built for it.

The composition root, and with supervisor.py the only place that opens the long-lived task groups. Upkeep (settling,
heartbeat, maintenance) outlives the intake (workers, dispatchers, scheduler, listener): what was claimed is settled
while the heartbeat goes on. How it stops is in shutdown.py.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from anyio import CancelScope, create_task_group, move_on_after

from steady_queue import events
from steady_queue.aio.context import Context
from steady_queue.aio.outage import Outage
from steady_queue.aio.process.deadlines import Deadlines
from steady_queue.aio.process.host import EmbeddedHost
from steady_queue.aio.process.lifecycle import Lifecycle, actors_of, describe_actors
from steady_queue.aio.process.services import Services
from steady_queue.aio.process.shutdown import Shutdown
from steady_queue.aio.process.startup import check_database, run_unless_stopped
from steady_queue.aio.process.stuck_threads import StuckThreads
from steady_queue.aio.process_identity import describe, hostname, process_name
from steady_queue.aio.scheduler.other_backends import CONCURRENCY
from steady_queue.aio.timing import SystemClock
from steady_queue.db import notify
from steady_queue.db.aliases import is_in_memory, queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.events import Events
from steady_queue.store.operations.processes.registration import NewProcess

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from anyio.abc import TaskGroup

    from steady_queue.aio.process.host import Companion, Host
    from steady_queue.aio.timing import Clock
    from steady_queue.configuration import Options


async def _no_children() -> None:
    pass


class Process:
    """Runs its services until a shutdown is requested, and leaves nothing behind.

    `leave` is called with the exit status instead of `os._exit`, when the lease is lost while a task runs that cannot
    be stopped; it is ignored if `host` is given.
    """

    def __init__(
        self,
        options: Options,
        *,
        alias: str | None = None,
        process_id: UUID | None = None,
        supervisor_id: UUID | None = None,
        clock: Clock | None = None,
        events: Events | None = None,
        leave: Callable[[int], object] = os._exit,
        host: Host | None = None,
    ) -> None:
        self.options = options
        self.alias = alias or queue_alias()
        if is_in_memory(self.alias):
            raise ConfigurationError(f"the database {self.alias!r} is in memory: no worker can reach it")
        self.id = process_id or uuid4()
        self.name = process_name(os.getpid(), self.id)
        self.clock = clock or SystemClock()
        self.events = events or Events()
        self.outage = Outage(clock=self.clock, events=self.events)
        #: Set when the process works, or has ended without.
        self.ready = asyncio.Event()
        #: Why the process did not start to work.
        self.start_problem: ConfigurationError | None = None
        host = host or EmbeddedHost(leave)
        row = NewProcess(self.id, "process", self.name, os.getpid(), hostname(), supervisor_id)
        actors = list(actors_of(options, row))
        self.deadlines = Deadlines(self.clock)
        self.lifecycle = Lifecycle(actors, deadlines=self.deadlines, events=self.events)
        self.services = Services(
            options,
            row._replace(metadata=describe([actor.as_metadata() for actor in actors])),
            alias=self.alias,
            host=host,
            deadlines=self.deadlines,
            on_stuck_thread=self._check_stuck_threads,
            on_stop_request=self._stop_on_request,
            context=Context(self.clock, self.events, self.outage),
        )
        self.shutdown = Shutdown(
            services=self.services,
            lifecycle=self.lifecycle,
            host=host,
            deadlines=self.deadlines,
            events=self.events,
        )
        self.stuck_threads = StuckThreads(
            [worker.capacity for worker in self.services.workers],
            limit=options.max_stuck_threads,
            is_replaceable=host.is_supervised,
            replace_process=self.shutdown.replace_process,
            events=self.events,
        )
        #: Called when a person asks this process to stop. A supervisor in the same event loop stops with it.
        self.on_stop_request = self.shutdown.request_by_person

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        companions: Sequence[Companion] = (),
        *,
        wait_for_children: Callable[[], Awaitable[None]] = _no_children,
    ) -> None:
        """Run until a shutdown is requested; then stop, deregister and close.

        `companions` run as long as the services of the process. `wait_for_children` is awaited when the tasks have
        stopped, before the process is deregistered: a supervisor in the same event loop waits for its children there.
        """
        stop_listening = [
            notify.listen_locally(self.alias, self.services.wake_ups.wake_from_any_thread),
            notify.listen_locally(self.alias, self.services.cancel_wake_ups.wake_from_any_thread, notify.CANCELLATIONS),
            notify.listen_locally(self.alias, self.services.requests.wake_from_any_thread, notify.REQUESTS),
        ]
        self.services.watchdog.start()
        try:
            await self.services.orm_threads.open()
            async with create_task_group() as upkeep:
                for companion in companions:
                    upkeep.start_soon(companion)
                await run_unless_stopped(self.deadlines.requested, self._check_database)
                if not self.deadlines.requested.is_set():
                    await self._work(upkeep, wait_for_children)
                upkeep.cancel_scope.cancel()
        except Exception as error:
            with CancelScope(shield=True):
                await self.lifecycle.exit(error)
            raise
        finally:
            self.ready.set()
            for stop in stop_listening:
                stop()
            self.services.watchdog.stop()
            with move_on_after(self.deadlines.close_seconds, shield=True):
                await self.services.close()

    async def _check_database(self) -> None:
        self.start_problem = await check_database(self.services.upkeep, self.alias, self.outage)
        if self.start_problem is not None:
            self.stop()

    async def _work(self, upkeep: TaskGroup, wait_for_children: Callable[[], Awaitable[None]]) -> None:
        upkeep.start_soon(self.services.settlers.unlimited.run)
        upkeep.start_soon(self.services.settlers.limited.run)
        upkeep.start_soon(self.services.reports.run)
        await run_unless_stopped(self.deadlines.requested, self.services.heartbeat.register)
        upkeep.start_soon(self.services.heartbeat.run)
        upkeep.start_soon(self.services.statistics.run)
        upkeep.start_soon(self.services.maintenance.run)
        upkeep.start_soon(self.services.awaited.run)
        upkeep.start_soon(self.services.cancellations.run)
        upkeep.start_soon(self.services.requests.run)
        if self.services.schedulers:
            for _ in range(CONCURRENCY):
                upkeep.start_soon(self.services.other_backends.run)
        if not self.deadlines.requested.is_set():
            await self._take_in()
        self.ready.set()
        with CancelScope(shield=True):
            await self.shutdown.run(wait_for_children)

    async def _take_in(self) -> None:
        await run_unless_stopped(self.deadlines.requested, self.lifecycle.start)
        if self.deadlines.requested.is_set():
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
            self._emit_started()
            self.ready.set()
            await self.shutdown.stop_intake(intake)

    def _check_stuck_threads(self) -> None:
        self.stuck_threads.check()

    def _stop_on_request(self) -> None:
        self.on_stop_request()

    def _emit_started(self) -> None:
        workers = self.options.workers
        self.events.emit(
            events.ProcessStarted(
                name=self.name,
                database=f"{self.services.hot.sql.name} ({self.alias})",
                runs=describe_actors(self.options),
                queues=", ".join(dict.fromkeys(name for worker in workers for name in worker.queues)),
                coroutines=sum(worker.coroutines for worker in workers),
                threads=sum(worker.threads for worker in workers),
            )
        )

    # -- requests for a shutdown: see Shutdown ------------------------------------------------------------------------

    def stop(self, seconds: float | None = None) -> None:
        """Stop gracefully: tasks may run for so many seconds, or `shutdown_timeout`; more than once does no harm."""
        self.shutdown.request(seconds)

    def quit(self) -> None:
        """Stop without waiting for tasks."""
        self.shutdown.request_now()

    def stop_by_signal(self) -> None:
        """The same as `stop`, from a signal handler or any thread."""
        self.shutdown.request_by_signal()

    def quit_by_signal(self) -> None:
        """The same as `quit`, from a signal handler or any thread."""
        self.shutdown.request_now_by_signal()

    @property
    def abandoned(self) -> int:
        """How many tasks still ran when the process had stopped."""
        return self.shutdown.abandoned
