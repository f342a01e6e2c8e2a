"""Supervisor: the composition root of a process that runs no tasks, but keeps the processes that do.

Or that runs some as well: beside a `Process` in the same loop it keeps the other copies of its workers. A supervisor's
own row in the database tells that it lives; nobody depends on it, and a lost one is made anew.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from anyio import create_task_group, move_on_after

import steady_queue
from steady_queue import wake
from steady_queue.aio import events
from steady_queue.aio.bell import Bell
from steady_queue.aio.clock import SystemClock
from steady_queue.aio.crew import KILL_AFTER, QUIT_AFTER, Crew
from steady_queue.aio.events import Events
from steady_queue.aio.heartbeat import Heartbeat
from steady_queue.aio.identity import describe, hostname, process_name
from steady_queue.aio.outage import Outage
from steady_queue.aio.patience import Patient, within
from steady_queue.aio.starting import admit, unless_stopped
from steady_queue.aio.trust import Trust
from steady_queue.aio.undertaker import Undertaker
from steady_queue.aio.watchdog import EXIT_UNTRUSTED
from steady_queue.databases import open_async, queue_alias
from steady_queue.errors import ConfigurationError, StoreError
from steady_queue.store.notify import notify
from steady_queue.store.process import NewProcess, deregister

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from steady_queue.aio.process import Process
    from steady_queue.configuration import Options

#: How long the rows of the last children may take when the supervisor stops, and when it quits, in seconds.
FLUSH_WITHIN, QUIT_WITHIN = 5.0, 1.0


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
        #: Set when its children may start.
        self.ready = asyncio.Event()
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._flush_within = FLUSH_WITHIN
        self._build(posts, every)
        if beside is not None:
            beside.before_sign_off = self._children_gone

    def _build(self, posts: Sequence[Options], every: float | None) -> None:
        clock = SystemClock()
        alive = steady_queue.process_alive_threshold.total_seconds()
        interval = steady_queue.process_heartbeat_interval.total_seconds()
        trust = Trust(alive_seconds=alive, clock=clock)
        self.alias = self.beside.alias if self.beside else queue_alias()
        self.driver = Patient(open_async(self.alias, size=1), within(trust.lasts))
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
        self.undertaker = Undertaker(made_ready=self._made_ready, **common)
        self.crew = Crew(
            posts,
            supervisor_id=self.id,
            every=every or min(interval, alive / 4),
            alive=alive,
            shutdown_timeout=steady_queue.shutdown_timeout.total_seconds(),
            ended=self.undertaker.put,
            bell=Bell(),
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
        finally:
            with move_on_after(self._flush_within, shield=True):
                await self.driver.close()

    async def _admit(self) -> None:
        self.refusal = await admit(self.driver, self.alias, self.outage)
        if self.refusal is not None:
            self.stop()

    async def _supervise(self) -> None:
        async with create_task_group() as upkeep:
            upkeep.start_soon(self.undertaker.run)
            for companion in self.companions:
                upkeep.start_soon(companion)
            async with create_task_group() as crew:
                if self.beside is not None:
                    crew.start_soon(self._run_beside, self.beside)
                    await self.beside.ready.wait()
                    if self.beside.refusal is not None:
                        self.crew.stop()  # before anybody starts
                crew.start_soon(self.crew.run)
                self.ready.set()
                if self.beside is None:
                    # The children do not wait for it: nobody depends on a supervisor's row.
                    await unless_stopped(self._stop, self.heartbeat.register)
                    upkeep.start_soon(self.heartbeat.run)
            with move_on_after(self._flush_within, shield=True) as leaving:
                await self._leave()
            if leaving.cancelled_caught:
                error = "the database did not answer: others will find what is left of this supervisor and its children"
                self.events.tell(events.RuntimeFault(where="stopping", error=error))
            upkeep.cancel_scope.cancel()

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
            self.heartbeat.sign_off()
            try:
                await self.driver.run(deregister(self.driver.sql, self.id))
            except StoreError as error:
                self.events.tell(events.RuntimeFault(where="stopping", error=str(error)))

    async def _made_ready(self) -> None:
        """Tasks of a dead child became ready, or unblocked others."""
        if self.beside is not None:
            self.beside.services.ring()
        if wake.is_notifying and self.driver.sql.can_notify:
            with suppress(StoreError):  # only a hint
                await self.driver.run(notify(self.driver.sql))

    # -- told from outside --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop gracefully; more than once does no harm."""
        self._stop.set()
        self.crew.stop()
        if self.beside is not None:
            self.beside.stop()

    def quit(self) -> None:
        """Stop at once."""
        self._flush_within = QUIT_WITHIN
        self._stop.set()
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
    timer = threading.Timer(seconds, os._exit, [EXIT_UNTRUSTED])
    timer.daemon = True
    timer.start()


async def _nothing() -> None:
    pass
