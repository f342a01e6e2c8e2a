"""Ticks of tasks of other backends: a backend that hangs delays no other tick, and a stop waits for it."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from steady_queue import aschedule_recurring_task
from steady_queue.aio import running
from steady_queue.aio.process import deadlines
from steady_queue.aio.scheduler import other_backends
from steady_queue.events import RecurringFailed
from steady_queue.jobs.compat import task_backends
from tests.aio.scheduler.helpers import ONLY_SCHEDULER, has_ticks, ticks
from tests.support.databases.tables import count
from tests.support.runtime import EmittedEvents, in_thread, until
from tests.support.tasks import recording

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_look_interval")]
SECOND = timedelta(seconds=1)


class Broker:
    """The other backend: its aenqueue waits until the test releases it."""

    def __init__(self, kind: str) -> None:
        self.started = 0
        self.enqueued = 0
        self._kind = kind
        self._released = threading.Event()

    async def aenqueue(self, *args: Any, **kwargs: Any) -> None:
        self.started += 1
        if self._kind == "sync":
            await sync_to_async(self._released.wait, thread_sensitive=True)()
        else:
            await until(self._released.is_set, timeout_seconds=60)
        self.enqueued += 1

    def release(self) -> None:
        self._released.set()


@pytest.fixture(params=["async", "sync"])
def broker(request: pytest.FixtureRequest, other_backend_task: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    hanging = Broker(request.param)
    monkeypatch.setattr(task_backends["other"], "aenqueue", hanging.aenqueue)
    yield hanging
    hanging.release()


async def test_a_backend_that_hangs_delays_no_tick_of_other_entries(
    database: str, other_backend_task: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(other_backends, "ENQUEUE_TIMEOUT_SECONDS", 3_600.0)
    for number in range(other_backends.CONCURRENCY + 2):
        await aschedule_recurring_task(other_backend_task, key=f"foreign {number}", every=SECOND, args=("Ada",))
    await aschedule_recurring_task(recording.rests, key="own", every=SECOND, args=("own",))
    async with running(ONLY_SCHEDULER):
        await until(lambda: broker.started >= other_backends.CONCURRENCY)
        fired = len(await in_thread(ticks, database, "own"))
        await has_ticks(database, "own", fired + 3)
        assert broker.enqueued == 0
        assert broker.started == other_backends.CONCURRENCY
        broker.release()
        await until(lambda: broker.enqueued > other_backends.CONCURRENCY)
    times = await in_thread(ticks, database, "own")
    assert times == [times[0] + n * SECOND for n in range(len(times))]


@pytest.mark.only_on("sqlite")
async def test_a_stop_waits_for_recorded_ticks_that_are_being_enqueued(
    database: str, other_backend_task: Any, broker: Broker
) -> None:
    emitted = EmittedEvents()
    for number in range(other_backends.CONCURRENCY + 2):
        await aschedule_recurring_task(
            other_backend_task, key=f"foreign {number}", schedule="* * * * * *", args=("Ada",)
        )
    async with running(ONLY_SCHEDULER, events=emitted) as process:
        await until(lambda: broker.started >= other_backends.CONCURRENCY)
        # Entries that were stored in different seconds have their first ticks in different turns.
        await until(lambda: in_thread(lambda: count(database, "recurringexecution") >= other_backends.CONCURRENCY + 2))
        process.stop()
        asyncio.get_running_loop().call_later(0.3, broker.release)
    assert broker.enqueued == await in_thread(count, database, "recurringexecution") >= other_backends.CONCURRENCY + 2
    assert emitted.of(RecurringFailed) == []


@pytest.mark.only_on("sqlite")
async def test_ticks_that_a_backend_has_not_enqueued_at_the_deadline_of_a_stop_are_reported(
    database: str, other_backend_task: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    monkeypatch.setattr(deadlines, "FLUSH_SECONDS", 0.2)
    await aschedule_recurring_task(other_backend_task, key="foreign", every=SECOND, args=("Ada",))
    async with running(ONLY_SCHEDULER, events=emitted):
        await until(lambda: broker.started >= 1)
    reported = emitted.of(RecurringFailed)
    assert len(reported) == await in_thread(count, database, "recurringexecution")
    assert all("stopped before" in event.error for event in reported)


@pytest.mark.only_on("sqlite")
async def test_ticks_that_could_not_be_enqueued_in_time_are_reported_and_not_recorded(
    database: str, other_backend_task: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted = EmittedEvents()
    monkeypatch.setattr(other_backends, "MAX_WAITING", 3)
    await aschedule_recurring_task(other_backend_task, key="foreign", every=SECOND, args=("Ada",))
    async with running(ONLY_SCHEDULER, events=emitted):
        await until(lambda: len(emitted.of(RecurringFailed)) >= 1)
        assert "too many tasks wait" in emitted.of(RecurringFailed)[0].error
        assert await in_thread(count, database, "recurringexecution") == 3
        broker.release()
        await has_ticks(database, "foreign", 4)
