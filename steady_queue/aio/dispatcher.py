"""Dispatcher: moves scheduled jobs that are due to their queues. It sleeps until the next one is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue import events
from steady_queue.aio.worker.polling import longest_pause
from steady_queue.errors import StoreDataError
from steady_queue.jobs.registry import limits_in_force
from steady_queue.store.operations.dispatch import Dispatched, ScheduledPoll, dispatch, next_due, poll_scheduled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.context import Context
    from steady_queue.aio.timing import WakeEvent
    from steady_queue.store.drivers.pool import AsyncDriver

#: The pause while a job is due and another dispatcher has locked it.
HELD_PAUSE_SECONDS = 0.1
#: How many jobs that cannot be moved are skipped in one batch, so that the jobs after them are moved.
MAX_SKIPPED = 100


class Dispatcher:
    """Any number of dispatchers share the work."""

    name = "dispatcher"

    def __init__(
        self,
        *,
        batch_size: int,
        interval_seconds: float,
        is_listening: Callable[[], bool],
        driver: AsyncDriver,
        wake_event: WakeEvent,
        wake_workers: Callable[[], Awaitable[None]],
        context: Context,
    ) -> None:
        self._batch_size = batch_size
        self._interval_seconds = interval_seconds
        self._is_listening = is_listening
        self._driver = driver
        self._wake_event = wake_event
        self._wake_workers = wake_workers
        self._clock = context.clock
        self._events = context.events
        self._outage = context.outage
        self._last_poll_at: float | None = None

    @property
    def polled_ago(self) -> float | None:
        """Seconds since its last successful poll."""
        return None if self._last_poll_at is None else self._clock.monotonic() - self._last_poll_at

    async def run(self) -> None:
        while True:
            try:
                poll = await self._poll()
                is_behind = poll.is_full or (poll.is_due and await self._dispatch())
            except Exception as error:
                await self._outage.wait(self.name, error)
                continue
            self._last_poll_at = self._clock.monotonic()
            if is_behind:
                continue
            self._outage.succeeded(self.name)
            pause_seconds = longest_pause(self._interval_seconds, is_listening=self._is_listening())
            if poll.is_due:
                # A job that is due and could not be moved is locked by another dispatcher.
                pause_seconds = min(pause_seconds, HELD_PAUSE_SECONDS)
            elif poll.due_in_seconds is not None:
                # A millisecond longer, so that the job is due by the database's clock.
                pause_seconds = min(pause_seconds, poll.due_in_seconds + 0.001)
            await self._wake_event.wait(pause_seconds)

    async def _poll(self) -> ScheduledPoll:
        """Look for due jobs, and move those that one statement can move."""
        began = self._clock.monotonic()
        try:
            poll = await self._driver.run(poll_scheduled(self._driver.sql, self._batch_size))
        except StoreDataError:
            # One of the jobs is bad: `_move` finds it and moves the others.
            poll = ScheduledPoll(0, await self._driver.run(next_due(self._driver.sql)))
        if self._events.is_wanted(events.Polled):
            milliseconds = (self._clock.monotonic() - began) * 1000
            found = int(poll.moved > 0 or poll.is_due)
            self._events.emit(events.Polled(actor=self.name, found=found, milliseconds=milliseconds))
        if poll.moved:
            await self._report(Dispatched(poll.moved), began)
        return poll

    async def _dispatch(self) -> bool:
        """Move a batch; returns False if there was no job that could be moved."""
        began = self._clock.monotonic()
        done = await self._move()
        if done.moved:
            await self._report(done, began)
        return done.moved > 0

    async def _report(self, done: Dispatched, began: float) -> None:
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
        await self._wake_workers()

    async def _move(self) -> Dispatched:
        """Move a batch. A batch that the database rejects is halved until the bad job is alone, and that is skipped."""
        size, skipped = self._batch_size, 0
        rejection: StoreDataError | None = None
        while True:
            try:
                done = await self._driver.run(dispatch(self._driver.sql, size, limits_in_force, past=skipped))
            except StoreDataError as error:
                if size == 1:
                    size, skipped, rejection = self._batch_size, skipped + 1, error
                    if skipped > MAX_SKIPPED:
                        raise
                else:
                    size //= 2
            else:
                if not done.moved and rejection is not None:
                    raise rejection
                return done
