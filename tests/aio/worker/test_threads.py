"""Threads for sync functions: functions are queued ahead only while they are short, and none waits for a long one."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from steady_queue import aenqueue_all
from steady_queue.aio import running
from steady_queue.aio.worker.threads import MAX_AHEAD_PER_THREAD, MIN_SAMPLES, Threads
from steady_queue.events import JobReleased
from tests.shop.tasks import noop
from tests.support.databases.tables import count, counts
from tests.support.runtime import EmittedEvents, in_thread, until, worker
from tests.support.tasks import recording
from tests.support.tasks.recording import task_record

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

#: A round trip to a database.
ROUND_TRIP = 0.002


def _nap(item: int) -> int:
    time.sleep(0.02)
    return item


class RecordedThreads:
    """Threads, the items that they have done, and how many of them have exited."""

    def __init__(self, count: int, work: Callable[[int], int]) -> None:
        self.done: list[int] = []
        self.left = 0
        self.threads: Threads[int, int] = Threads(count, work, self._done, on_exit=self._leave)

    def _done(self, item: int, result: int, seconds: float) -> None:
        self.done.append(item)

    def _leave(self) -> None:
        self.left += 1

    async def does(self, items: range) -> None:
        for item in items:
            self.threads.submit(item)
        await until(lambda: len(self.done) >= len(items))


async def test_nothing_is_queued_ahead_before_enough_functions_were_measured() -> None:
    recorded = RecordedThreads(2, lambda item: item)
    assert recorded.threads.ahead(ROUND_TRIP) == 0
    await recorded.does(range(MIN_SAMPLES - 1))
    assert recorded.threads.ahead(ROUND_TRIP) == 0


async def test_short_functions_are_queued_ahead_up_to_a_bound() -> None:
    recorded = RecordedThreads(2, lambda item: item)
    await recorded.does(range(MIN_SAMPLES))
    assert recorded.threads.ahead(60) == 2 * MAX_AHEAD_PER_THREAD


async def test_functions_longer_than_a_round_trip_are_not_queued_ahead() -> None:
    recorded = RecordedThreads(4, _nap)
    await recorded.does(range(MIN_SAMPLES))
    assert recorded.threads.ahead(ROUND_TRIP) == 0


async def test_functions_that_no_thread_has_begun_can_be_removed() -> None:
    gate = threading.Event()
    recorded = RecordedThreads(2, lambda item: gate.wait(30) and item)
    for item in range(5):
        recorded.threads.submit(item)
    await until(lambda: recorded.threads._items.qsize() == 3)
    assert recorded.threads.remove_waiting() == [2, 3, 4]
    gate.set()
    await until(lambda: sorted(recorded.done) == [0, 1])
    assert recorded.threads.remove_waiting() == []


async def test_threads_exit_when_they_are_closed() -> None:
    recorded = RecordedThreads(3, lambda item: item)
    await recorded.does(range(3))
    recorded.threads.close()
    await until(lambda: recorded.left == 3)


async def test_a_thread_exits_after_its_function_if_the_loop_has_been_closed() -> None:
    gate, recorded = threading.Event(), []

    async def start() -> None:
        recorded.append(RecordedThreads(1, lambda item: gate.wait(30) and item))
        recorded[0].threads.submit(1)

    await asyncio.to_thread(asyncio.run, start())
    gate.set()
    await until(lambda: recorded[0].left == 1)


async def test_claims_that_wait_for_long_functions_are_released_to_other_processes(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if all functions had been short so far, on any machine.
    monkeypatch.setattr(
        Threads, "ahead", lambda self, seconds: MAX_AHEAD_PER_THREAD * self.count if self._ended < 10**6 else 0
    )
    taken_back = Threads.remove_waiting

    def forget(self: Threads[object, object]) -> list[object]:
        items = taken_back(self)
        self._ended = 10**6
        return items

    monkeypatch.setattr(Threads, "remove_waiting", forget)
    emitted = EmittedEvents()
    await aenqueue_all([recording.blocks.bind(number) for number in range(12)])
    async with running(worker(threads=2), events=emitted):
        await until(lambda: len(emitted.of(JobReleased)) == 10)
        assert len(task_record.began) == 2
        assert await in_thread(counts, database) == {"claimed": 2, "ready": 10}
        assert {event.reason for event in emitted.of(JobReleased)} == {"the tasks before it take long"}
        task_record.gate.set()
        await until(lambda: len(task_record.began) == 12)
    assert set(task_record.runs.values()) == {1}


async def test_many_short_functions_run_once_each(database: str) -> None:
    await aenqueue_all([recording.notes.bind(number) for number in range(300)])
    async with running(worker(threads=4)):
        await until(lambda: len(task_record.runs) == 300)
    assert set(task_record.runs.values()) == {1}
    assert await in_thread(count, database, "claimedexecution") == 0


async def test_tasks_that_wait_for_a_thread_when_the_process_stops_are_released(database: str) -> None:
    await aenqueue_all([noop.bind() for _ in range(500)])
    async with running(worker(threads=2)):
        pass
    left = await in_thread(counts, database)
    assert set(left) <= {"ready"}
