"""Supervisor: the composition root of a process that runs no tasks itself, but starts and watches those that do.

With `--async` it also runs tasks: a `Process` works in the same event loop, and the supervisor starts the other copies
of its workers. A supervisor's own row in the database shows that it is alive; nothing depends on it, and a row that was
deleted is inserted again.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from anyio import CancelScope, create_task_group, move_on_after

import steady_queue
from steady_queue import events
from steady_queue.aio.context import Context
from steady_queue.aio.deadline_driver import DeadlineDriver
from steady_queue.aio.lease import Lease
from steady_queue.aio.outage import Outage
from steady_queue.aio.process.connections import operation_timeout
from steady_queue.aio.process.deadlines import FLUSH_SECONDS, Deadlines, shutdown_seconds
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.aio.process.host import EmbeddedHost
from steady_queue.aio.process.lifecycle import Lifecycle, actor_of
from steady_queue.aio.process.measurements import Measurements
from steady_queue.aio.process.requests import Requests
from steady_queue.aio.process.startup import check_database, run_unless_stopped
from steady_queue.aio.process.watchdog import EXIT_FORCED
from steady_queue.aio.process_identity import describe, hostname, process_name
from steady_queue.aio.supervisor.children import KILL_AFTER_SECONDS, QUIT_AFTER_SECONDS, Children
from steady_queue.aio.supervisor.pruner import Pruner
from steady_queue.aio.supervisor.restart_signals import RestartSignals
from steady_queue.aio.timing import SystemClock
from steady_queue.configuration import alive_threshold
from steady_queue.db import notify
from steady_queue.db.aliases import open_async, queue_alias
from steady_queue.errors import ConfigurationError, StoreError, StoreUnavailable
from steady_queue.events import Events
from steady_queue.store.operations.processes.registration import NewProcess, deregister

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskGroup

    from steady_queue.aio.process.host import Companion, Host
    from steady_queue.aio.process.process import Process
    from steady_queue.configuration import Options

#: How long the last statements may take after an immediate request; after a graceful one it is FLUSH_SECONDS.
FLUSH_NOW_SECONDS = 1.0
#: How often children report their state, at least: what a killed child did after its last report is not counted.
REPORT_SECONDS = 5.0
#: How long the hooks, and so the children, wait for the supervisor's own row at the start.
REGISTER_SECONDS = 2.0


class Supervisor:
    """Runs until a shutdown is requested, and stops when the last child has exited.

    `process` works in the same event loop. `report_seconds` is how often children report their state.
    """

    def __init__(
        self,
        positions: Sequence[Options],
        *,
        process: Process | None = None,
        report_seconds: float | None = None,
        events: Events | None = None,
        host: Host | None = None,
    ) -> None:
        self.id: UUID = process.id if process else uuid4()
        self.name = process_name(os.getpid(), self.id)
        self.process = process
        self.events = events or (process.events if process else Events())
        #: Why it did not start to work.
        self.start_problem: ConfigurationError | None = None
        #: Set when its children may start.
        self.ready = asyncio.Event()
        self._host = host or EmbeddedHost()
        self._is_registered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._build(positions, report_seconds)
        if process is not None:
            process.on_stop_request = self.stop

    def _build(self, positions: Sequence[Options], report_seconds: float | None) -> None:
        clock = SystemClock()
        alive_seconds = alive_threshold().total_seconds()
        interval = steady_queue.process_heartbeat_interval.total_seconds()
        lease = Lease(alive_seconds=alive_seconds, clock=clock)
        self.alias = self.process.alias if self.process else queue_alias()
        self.driver = DeadlineDriver(open_async(self.alias, size=1), operation_timeout(lease))
        self.outage = Outage(clock=clock, events=self.events)
        self.deadlines = Deadlines(clock, flush_now_seconds=FLUSH_NOW_SECONDS)
        row = NewProcess(self.id, "supervisor", self.name, os.getpid(), hostname(), None)
        actor = actor_of("supervisor", row, processes=len(positions))
        self.lifecycle = Lifecycle([actor], deadlines=self.deadlines, events=self.events)
        context = Context(clock, self.events, self.outage)
        self.requests = (
            self.process.services.requests
            if self.process
            else Requests(process=row, driver=self.driver, stacks=None, stop=self.stop, context=context)
        )
        self.heartbeat = Heartbeat(
            process=row._replace(metadata=describe([actor.as_metadata()])),
            interval=interval,
            driver=self.driver,
            lease=lease,
            on_lease_lost=lambda: None,  # it has no claims
            on_pruned=_nothing,
            on_request=self.requests.wake,
            polled_ago=None,  # it runs no tasks
            measure=Measurements().take,
            on_success=lambda now: None,
            context=context,
        )
        self.pruner = Pruner(driver=self.driver, wake_all=self._wake_all, context=context)
        self.restarts = RestartSignals(supervisor_id=self.id, context=context)
        self.children = Children(
            positions,
            supervisor_id=self.id,
            report_seconds=report_seconds or min(interval, alive_seconds / 4, REPORT_SECONDS),
            alive_seconds=alive_seconds,
            on_exit=self.pruner.put,
            on_start_problem=self._fail_start,
            on_replacement=self.restarts.put,
            on_request=self.requests.wake,
            context=context,
        )

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self, companions: Sequence[Companion] = ()) -> None:
        """Run until a shutdown is requested. `companions` run as long as the services."""
        try:
            if self.process is None:
                await run_unless_stopped(self.deadlines.requested, self._check_database)
            if not self.deadlines.requested.is_set():
                await self._supervise(companions)
        except Exception as error:
            with CancelScope(shield=True):
                await self.lifecycle.exit(error)
            raise
        finally:
            with move_on_after(self.deadlines.close_seconds, shield=True):
                await self.driver.close()

    async def _check_database(self) -> None:
        self.start_problem = await check_database(self.driver, self.alias, self.outage)
        if self.start_problem is not None:
            self.stop()

    def _fail_start(self, why: str) -> None:
        """A child found, when it imported the tasks, that it cannot start: then the whole start has failed."""
        if self.start_problem is None:
            self.start_problem = ConfigurationError(why)
        self.stop()

    async def _supervise(self, companions: Sequence[Companion]) -> None:
        async with create_task_group() as upkeep:
            upkeep.start_soon(self.pruner.run)
            upkeep.start_soon(self.restarts.run)
            async with create_task_group() as work:
                work.start_soon(self._call_stop_hooks)
                if self.process is None:
                    for companion in companions:
                        upkeep.start_soon(companion)
                    work.start_soon(self._register, upkeep)
                else:
                    work.start_soon(self._run_process, self.process, companions)
                    await self.process.ready.wait()
                    if self.process.start_problem is not None:
                        self.children.stop()  # before any child starts
                if not self.children.is_stopping:
                    await run_unless_stopped(self.deadlines.requested, self._start)
                work.start_soon(self._run_children)
                self.ready.set()
                count = len(self.children.positions)
                self.events.emit(events.SupervisorStarted(name=self.name, pid=os.getpid(), processes=count))
            await self._deregister_and_exit()
            upkeep.cancel_scope.cancel()

    async def _register(self, upkeep: TaskGroup) -> None:
        await run_unless_stopped(self.deadlines.requested, self.heartbeat.register)
        self._is_registered.set()
        upkeep.start_soon(self.heartbeat.run)
        upkeep.start_soon(self.requests.run)

    async def _start(self) -> None:
        if self.process is None:
            # Not for long: nothing depends on a supervisor's row.
            with move_on_after(REGISTER_SECONDS):
                await self._is_registered.wait()
        await self.lifecycle.start()

    async def _run_children(self) -> None:
        try:
            await self.children.run()
        finally:
            self.deadlines.requested.set()  # also if the process in this event loop has ended by itself

    async def _run_process(self, process: Process, companions: Sequence[Companion]) -> None:
        try:
            await process.run(companions, wait_for_children=self._wait_for_children)
        finally:
            self.children.stop()

    async def _wake_all(self) -> None:
        """Tasks of an exited child were released, or their slots unblocked other tasks."""
        await notify.wake_all(self.driver, self.process.services.wake_ups.wake if self.process is not None else None)

    # -- stopping -----------------------------------------------------------------------------------------------------

    async def _call_stop_hooks(self) -> None:
        await self.deadlines.requested.wait()
        await self.lifecycle.stop()

    async def _wait_for_children(self) -> None:
        self.children.stop()
        await self.children.all_exited.wait()
        with move_on_after(self.deadlines.close_seconds):
            await self.pruner.done.wait()

    async def _deregister_and_exit(self) -> None:
        """All children have exited: prune the last of them, deregister, and call the `on_exit` hooks."""
        with move_on_after(self.deadlines.close_seconds, shield=True) as flushing:
            await self._deregister()
        if flushing.cancelled_caught:
            problem = "the database did not answer: maintenance of another process will prune what is left"
            self._emit_not_deregistered(StoreUnavailable(problem))
        self.events.emit(events.SupervisorStopped(name=self.name, pid=os.getpid()))
        with CancelScope(shield=True):
            await self.lifecycle.exit()
        is_process_busy = self.process is not None and self.process.shutdown.is_busy
        self._host.finish(is_busy=is_process_busy or self.lifecycle.has_running_hooks)

    async def _deregister(self) -> None:
        await self.pruner.done.wait()
        if self.process is None:
            try:
                await self.heartbeat.stop()
                await self.driver.run(deregister(self.driver.sql, self.id))
                self.events.emit(events.ProcessDeregistered(process_id=self.id, name=self.name, claims=0))
            except StoreError as error:
                self._emit_not_deregistered(error)

    def _emit_not_deregistered(self, error: StoreError) -> None:
        who: dict[str, Any] = {"process_id": self.id, "name": self.name}
        self.events.emit(events.ProcessDeregistrationFailed(**who, error=str(error), exception=error))

    # -- requests for a shutdown --------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop the children and the process in this event loop gracefully; more than once does no harm."""
        self.deadlines.request()
        self.children.stop()
        if self.process is not None:
            self.process.stop()

    def quit(self) -> None:
        """Stop the children only, at once; `quit_by_signal` also calls `process.quit_by_signal`."""
        self.deadlines.request_now()
        self.children.quit()

    def stop_by_signal(self) -> None:
        """The same as `stop`, from a signal handler."""
        _exit_after(shutdown_seconds() + 2 * FLUSH_SECONDS + QUIT_AFTER_SECONDS + KILL_AFTER_SECONDS)
        if self.process is not None:
            self.process.stop_by_signal()
        self._loop.call_soon_threadsafe(self.stop)

    def quit_by_signal(self) -> None:
        """Stop at once, from a signal handler."""
        _exit_after(2 * FLUSH_NOW_SECONDS + KILL_AFTER_SECONDS)
        if self.process is not None:
            self.process.quit_by_signal()
        self._loop.call_soon_threadsafe(self.quit)


def _exit_after(seconds: float) -> None:
    """End this process in time even if its event loop is blocked, for example by a log pipe that is not read.

    Its children notice that it has exited.
    """
    timer = threading.Timer(seconds, os._exit, [EXIT_FORCED])
    timer.daemon = True
    timer.start()


async def _nothing() -> None:
    pass
