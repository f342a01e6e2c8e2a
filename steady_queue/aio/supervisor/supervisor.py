"""Supervisor: the composition root of a process that runs no tasks, but keeps the processes that do.

Or that runs some as well: beside a `Process` in the same loop it keeps the other copies of its workers. A supervisor's
own row in the database tells that it lives; nobody depends on it, and a lost one is made anew.

Restarts: tells the receivers of `process_restarted` whom a supervisor has replaced, while it goes on.
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
from steady_queue.aio.driver import DeadlineDriver
from steady_queue.aio.identity import describe, hostname, process_name
from steady_queue.aio.lease import Lease
from steady_queue.aio.outage import Outage
from steady_queue.aio.process.connections import within
from steady_queue.aio.process.heartbeat import Heartbeat
from steady_queue.aio.process.lifecycle import Lifecycle, actor_of, actors_of
from steady_queue.aio.process.startup import admit, unless_stopped
from steady_queue.aio.process.watchdog import EXIT_LEASE_LOST
from steady_queue.aio.supervisor.children import KILL_AFTER, QUIT_AFTER, Children
from steady_queue.aio.supervisor.pruner import Pruner
from steady_queue.aio.timing import SystemClock, WakeEvent
from steady_queue.configuration import alive_threshold
from steady_queue.db import notify
from steady_queue.db.aliases import open_async, queue_alias
from steady_queue.errors import ConfigurationError, StoreError, StoreUnavailable
from steady_queue.events import Events
from steady_queue.store.operations.processes import NewProcess, deregister

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from anyio.abc import TaskGroup

    from steady_queue.aio.process.process import Process
    from steady_queue.aio.supervisor.children import Replacement
    from steady_queue.configuration import Options


class Restarts:
    """A signal for each actor of a child that was replaced."""

    def __init__(self, *, supervisor_id: UUID, events: Events) -> None:
        self._supervisor_id = supervisor_id
        self._events = events
        self._done: asyncio.Queue[Replacement] = asyncio.Queue()

    def put(self, done: Replacement) -> None:
        self._done.put_nowait(done)

    async def run(self) -> None:
        while True:
            done = await self._done.get()
            id_, pid = done.before.id, done.before.pid
            row = NewProcess(id_, "process", process_name(pid, id_), pid, hostname(), self._supervisor_id)
            actors = list(actors_of(done.before.options, row))
            await Lifecycle(actors, events=self._events).restarted(
                exitcode=done.status, replacement_pid=done.child.pid, supervisor_pid=os.getpid()
            )


#: How long the rows of the last children may take when the supervisor stops, and when it quits, in seconds.
FLUSH_WITHIN, QUIT_WITHIN = 5.0, 1.0
#: How long its hooks, and so its children, wait for its own row at the start, in seconds.
ROW_WITHIN = 2.0


class Supervisor:
    """Runs until told to stop, and leaves when the last child has."""

    def __init__(
        self,
        posts: Sequence[Options],
        *,
        beside: Process | None = None,
        every: float | None = None,
        events: Events | None = None,
    ) -> None:
        self.id: UUID = beside.id if beside else uuid4()
        self.name = process_name(os.getpid(), self.id)
        self.beside = beside
        self.events = events or (beside.events if beside else Events())
        #: Why it did not start to work.
        self.refusal: ConfigurationError | None = None
        #: Services of whoever runs this supervisor, which live as long as its own.
        self.companions: list[Callable[[], Coroutine[Any, Any, None]]] = []
        #: Called when all is written: the process ends here if it would have to wait for what cannot be stopped.
        self.at_last: Callable[[], object] = lambda: None
        #: Set when its children may start.
        self.ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._has_row = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._flush_within = FLUSH_WITHIN
        self._build(posts, every)
        if beside is not None:
            beside.before_sign_off = self._children_gone

    def _build(self, posts: Sequence[Options], every: float | None) -> None:
        clock = SystemClock()
        alive = alive_threshold().total_seconds()
        interval = steady_queue.process_heartbeat_interval.total_seconds()
        trust = Lease(alive_seconds=alive, clock=clock)
        self.alias = self.beside.alias if self.beside else queue_alias()
        self.driver = DeadlineDriver(open_async(self.alias, size=1), within(trust.duration_seconds))
        self.outage = Outage(clock=clock, events=self.events)
        common: dict[str, Any] = {"driver": self.driver, "events": self.events, "outage": self.outage}
        self.heartbeat = Heartbeat(
            process=self._row(len(posts)),
            interval=interval,
            trust=trust,
            lost_trust=lambda: None,  # it has no claims
            buried=_nothing,
            polled_ago=None,  # it runs no tasks
            clock=clock,
            **common,
        )
        self.undertaker = Pruner(made_ready=self._made_ready, **common)
        self.restarts = Restarts(supervisor_id=self.id, events=self.events)
        actor = actor_of("supervisor", self._row(len(posts)), posts=len(posts))
        self.lifecycle = Lifecycle([actor], events=self.events)
        self.crew = Children(
            posts,
            supervisor_id=self.id,
            every=every or min(interval, alive / 4),
            alive=alive,
            shutdown_timeout=steady_queue.shutdown_timeout.total_seconds(),
            ended=self.undertaker.put,
            refused=self._refuse,
            replaced=self.restarts.put,
            bell=WakeEvent(),
            clock=clock,
            events=self.events,
        )

    def _row(self, posts: int) -> NewProcess:
        metadata = describe([{"kind": "supervisor", "posts": posts}])
        return NewProcess(self.id, "supervisor", self.name, os.getpid(), hostname(), None, metadata)

    # -- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            if self.beside is None:
                await unless_stopped(self._stop, self._admit)
            if not self._stop.is_set():
                await self._supervise()
        except Exception as error:
            with CancelScope(shield=True):
                await self.lifecycle.exit(error)
            raise
        finally:
            with move_on_after(self._flush_within, shield=True):
                await self.driver.close()

    async def _admit(self) -> None:
        self.refusal = await admit(self.driver, self.alias, self.outage)
        if self.refusal is not None:
            self.stop()

    def _refuse(self, why: str) -> None:
        """A child found, when it imported the tasks, that it cannot start: then this is no start at all."""
        if self.refusal is None:
            self.refusal = ConfigurationError(why)
        self.stop()

    async def _supervise(self) -> None:
        async with create_task_group() as upkeep:
            upkeep.start_soon(self.undertaker.run)
            upkeep.start_soon(self.restarts.run)
            for companion in self.companions:
                upkeep.start_soon(companion)
            async with create_task_group() as crew:
                crew.start_soon(self._call_when_stopped)
                if self.beside is None:
                    crew.start_soon(self._register, upkeep)
                else:
                    crew.start_soon(self._run_beside, self.beside)
                    await self.beside.ready.wait()
                    if self.beside.refusal is not None:
                        self.crew.stop()  # before anybody starts
                if not self.crew.is_stopping:
                    await unless_stopped(self._stop, self._start)
                crew.start_soon(self._run_crew)
                self.ready.set()
                self.events.emit(
                    events.SupervisorStarted(name=self.name, pid=os.getpid(), processes=len(self.crew.posts))
                )
            with move_on_after(self._flush_within, shield=True) as leaving:
                await self._leave()
            if leaving.cancelled_caught:
                what = "the database did not answer: others will find what is left of this supervisor and its children"
                self._tell_left_behind(StoreUnavailable(what))
            self.events.emit(events.SupervisorStopped(name=self.name, pid=os.getpid()))
            with CancelScope(shield=True):
                await self.lifecycle.exit()
            self.at_last()
            upkeep.cancel_scope.cancel()

    async def _register(self, upkeep: TaskGroup) -> None:
        await unless_stopped(self._stop, self.heartbeat.register)
        self._has_row.set()
        upkeep.start_soon(self.heartbeat.run)

    async def _start(self) -> None:
        if self.beside is None:
            # Not for long: nobody depends on a supervisor's row.
            with move_on_after(ROW_WITHIN):
                await self._has_row.wait()
        await self.lifecycle.start()

    def _tell_left_behind(self, error: StoreError) -> None:
        who: dict[str, Any] = {"process_id": self.id, "name": self.name}
        self.events.emit(events.ProcessDeregistrationFailed(**who, error=str(error), exception=error))

    async def _run_crew(self) -> None:
        try:
            await self.crew.run()
        finally:
            self._stop.set()  # also when a process beside it has ended by itself

    async def _call_when_stopped(self) -> None:
        await self._stop.wait()
        await self.lifecycle.stop()

    async def _run_beside(self, process: Process) -> None:
        try:
            await process.run()
        finally:
            self.crew.stop()

    async def _children_gone(self) -> None:
        self.crew.stop()
        await self.crew.gone.wait()
        with move_on_after(self._flush_within):
            await self.undertaker.done.wait()

    async def _leave(self) -> None:
        await self.undertaker.done.wait()
        if self.beside is None:
            try:
                await self.heartbeat.rest()
                await self.driver.run(deregister(self.driver.sql, self.id))
                self.events.emit(events.ProcessDeregistered(process_id=self.id, name=self.name, claims=0))
            except StoreError as error:
                self._tell_left_behind(error)

    async def _made_ready(self) -> None:
        """Tasks of a dead child became ready, or unblocked others."""
        await notify.wake_all(self.driver, self.beside.services.wake_ups.wake if self.beside is not None else None)

    # -- told from outside --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop gracefully; more than once does no harm."""
        self._stop.set()
        self.lifecycle.allow(steady_queue.shutdown_timeout.total_seconds())
        self.crew.stop()
        if self.beside is not None:
            self.beside.stop()

    def quit(self) -> None:
        """Stop at once."""
        self._flush_within = QUIT_WITHIN
        self._stop.set()
        self.lifecycle.hurry()
        self.crew.quit()

    def stop_by_signal(self) -> None:
        """The same as `stop` from the handler of a signal."""
        _leave_after(steady_queue.shutdown_timeout.total_seconds() + 2 * FLUSH_WITHIN + QUIT_AFTER + KILL_AFTER)
        if self.beside is not None:
            self.beside.stop_by_signal()
        self._loop.call_soon_threadsafe(self.stop)

    def quit_by_signal(self) -> None:
        _leave_after(2 * QUIT_WITHIN + KILL_AFTER)
        if self.beside is not None:
            self.beside.quit_by_signal()
        self._loop.call_soon_threadsafe(self.quit)


def _leave_after(seconds: float) -> None:
    """End this process in time, whatever holds up its loop: a log that nobody reads, say. Its children notice."""
    timer = threading.Timer(seconds, os._exit, [EXIT_LEASE_LOST])
    timer.daemon = True
    timer.start()


async def _nothing() -> None:
    pass
