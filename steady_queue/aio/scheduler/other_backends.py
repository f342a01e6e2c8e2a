"""OtherBackends: enqueues ticks whose tasks belong to another task backend, concurrently with the scheduler.

A backend that hangs would delay the ticks of all other entries. So `CONCURRENCY` coroutines enqueue at once, each with
a thread of its own for backends that are not async. A tick is recorded before it comes here, and no other scheduler
enqueues it: a shutdown still enqueues the ticks that wait, within a time limit, and reports those that are left.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections

from steady_queue import arguments
from steady_queue.aio.orm_threads.pool import OrmThreads
from steady_queue.aio.orm_threads.session import session_variable
from steady_queue.errors import TransactionLeftOpen
from steady_queue.events import RecurringFailed
from steady_queue.store.outcome import report_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from steady_queue.aio.scheduler.timetable import Planned
    from steady_queue.events import Events

#: How many ticks are enqueued at once, and how many may wait.
CONCURRENCY, MAX_WAITING = 8, 10_000
#: How long another backend may take to enqueue a task.
ENQUEUE_TIMEOUT_SECONDS = 10.0


class OtherBackends:
    """Enqueues tasks in their backends. `run` is started `CONCURRENCY` times."""

    def __init__(self, *, events: Events) -> None:
        self._events = events
        self._waiting: asyncio.Queue[int] = asyncio.Queue()
        #: The ticks that are not enqueued yet, by a number.
        self._kept: dict[int, Planned] = {}
        self._numbers = count()

    @property
    def free_places(self) -> int:
        """How many more ticks may wait."""
        return MAX_WAITING - len(self._kept)

    def put(self, planned: Planned) -> None:
        """Add one more tick of an entry."""
        number = next(self._numbers)
        self._kept[number] = planned
        self._waiting.put_nowait(number)

    async def run(self) -> None:
        number = await self._waiting.get()
        threads = OrmThreads(1, events=self._events, name="steady-queue-other-backends")
        try:
            async with ThreadSensitiveContext(executor=threads):
                while True:
                    if (planned := self._kept.get(number)) is not None:
                        await self._enqueue(planned, threads)
                        self._kept.pop(number, None)
                    self._waiting.task_done()
                    number = await self._waiting.get()
        finally:
            threads.shutdown()

    async def drain(self, limit: Callable[[float], AbstractContextManager[object]]) -> None:
        """Wait until every tick is enqueued; `limit` opens a scope that ends the wait after so many seconds at most."""
        with limit(ENQUEUE_TIMEOUT_SECONDS):
            await self._waiting.join()
        left, self._kept = self._kept, {}
        for planned in left.values():
            error = TimeoutError("the process stopped before the task was enqueued in its backend")
            self._events.emit(failure_event(planned, error))

    async def _enqueue(self, planned: Planned, threads: OrmThreads) -> None:
        session, _ = threads.begin(lambda: f"the recurring task {planned.entry.new.task_key}")
        token = session_variable.set(session)
        try:
            async with asyncio.timeout(ENQUEUE_TIMEOUT_SECONDS):
                args, kwargs = await arguments.aloads(planned.entry.new.arguments)
                await sync_to_async(close_old_connections, thread_sensitive=True)()
                await planned.task.aenqueue(*args, **kwargs)
            if (alias := session.open_transaction) is not None:
                raise TransactionLeftOpen(alias)
        except Exception as error:  # of the other backend
            self._events.emit(failure_event(planned, error))
        finally:
            session_variable.reset(token)
            await session.release_thread()
            threads.end(session)


def failure_event(planned: Planned, error: Exception) -> RecurringFailed:
    """Return the event of a tick that was not enqueued."""
    return RecurringFailed(key=planned.entry.new.task_key, error=report_of(error).traceback, exception=error)
