"""Dispatcher: scheduled jobs whose time has come go to their queues. It sleeps until the next one that it knows of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.errors import StoreDataError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations.dispatch import dispatch, next_due

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.outage import Outage
    from steady_queue.aio.timing import Clock, WakeEvent
    from steady_queue.events import Events
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.dispatch import Dispatched

#: How long to wait for a job that is due while somebody else holds it, in seconds.
HELD = 0.1
#: Jobs that cannot be moved, and are stepped over so that others can.
STUBBORN = 100


class Dispatcher:
    """Any number of them share the work."""

    name = "dispatcher"

    def __init__(
        self,
        *,
        batch_size: int,
        longest_sleep: Callable[[], float],
        driver: AsyncDriver,
        bell: WakeEvent,
        made_ready: Callable[[], Awaitable[None]],
        clock: Clock,
        events: Events,
        outage: Outage,
    ) -> None:
        self.bell = bell
        self._batch_size = batch_size
        self._longest_sleep = longest_sleep
        self._driver = driver
        self._made_ready = made_ready
        self._clock = clock
        self._events = events
        self._outage = outage
        self._last_poll: float | None = None

    @property
    def polled_ago(self) -> float | None:
        """Seconds since it last looked for due jobs with success."""
        return None if self._last_poll is None else self._clock.monotonic() - self._last_poll

    async def run(self) -> None:
        while True:
            try:
                began = self._clock.monotonic()
                due_in = await self._driver.run(next_due(self._driver.sql))
                if self._events.is_wanted(events.Polled):
                    took = (self._clock.monotonic() - began) * 1000
                    found = int(due_in is not None and due_in <= 0)
                    self._events.emit(events.Polled(actor=self.name, found=found, milliseconds=took))
                is_behind = due_in is not None and due_in <= 0 and await self._dispatch()
            except Exception as error:
                await self._outage.wait(self.name, error)
                continue
            self._last_poll = self._clock.monotonic()
            if is_behind:
                continue
            self._outage.over(self.name)
            longest = self._longest_sleep()
            if due_in is not None:
                # A little more than the time that is left: due by the database's clock, which has moved on by then.
                # What is due and could not be taken is held by somebody.
                longest = min(longest, due_in + 0.001 if due_in > 0 else HELD)
            await self.bell.wait(longest)

    async def _dispatch(self) -> bool:
        """Move a batch; False when there was nothing that could be moved."""
        began = self._clock.monotonic()
        done = await self._move()
        if not done.moved:
            return False
        self._events.emit(
            events.JobsDispatched(
                batch_size=self._batch_size,
                count=done.moved - len(done.discarded),
                discarded=len(done.discarded),
                milliseconds=(self._clock.monotonic() - began) * 1000,
            )
        )
        for id_ in done.discarded:
            self._events.emit(events.JobRefused(job_id=id_))
        await self._made_ready()
        return True

    async def _move(self) -> Dispatched:
        """A batch that holds a job which cannot be moved is halved until that one is alone, and is stepped over."""
        size, past = self._batch_size, 0
        refusal: StoreDataError | None = None
        while True:
            try:
                done = await self._driver.run(dispatch(self._driver.sql, size, limits_in_force, past=past))
            except StoreDataError as error:
                if size == 1:
                    size, past, refusal = self._batch_size, past + 1, error
                    if past > STUBBORN:
                        raise
                else:
                    size //= 2
            else:
                if not done.moved and refusal is not None:
                    raise refusal
                return done
