"""The watchdog: a task that blocks the event loop is named, with its line; a process without a lease exits."""

from __future__ import annotations

import threading

import pytest

from steady_queue.aio import running
from steady_queue.aio.lease import Lease
from steady_queue.aio.process import watchdog
from steady_queue.aio.process.deadlines import Deadlines
from steady_queue.aio.process.watchdog import EXIT_FORCED, Watchdog
from steady_queue.aio.timing import SystemClock
from steady_queue.events import Events, LoopBlocked
from tests.support.runtime import WAIT_TIMEOUT_SECONDS, EmittedEvents, until, wait_for_results, worker
from tests.support.tasks import misbehaving

pytestmark = pytest.mark.anyio


@pytest.fixture
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog checks often."""
    monkeypatch.setattr(watchdog, "BLOCKED_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "CHECK_SECONDS", 0.05)


async def test_a_task_that_blocks_the_loop_is_reported_with_its_name_and_line(
    database: str, frequent_checks: None
) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        (result,) = await wait_for_results(await misbehaving.blocks_the_loop.aenqueue(0.8))
    event, *_ = [event for event in emitted.of(LoopBlocked) if result.id in event.task]
    assert event.task == f"tests.support.tasks.misbehaving.blocks_the_loop ({result.id})"
    assert "misbehaving.py:" in event.where
    assert "blocks_the_loop: time.sleep(" in event.where
    assert event.seconds >= 0.2


async def test_a_task_that_blocks_its_own_thread_is_not_reported(database: str, frequent_checks: None) -> None:
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        (result,) = await wait_for_results(await misbehaving.blocks_its_thread.aenqueue(0.5))
    assert not [event for event in emitted.of(LoopBlocked) if result.id in event.task]


async def test_a_loop_blocked_longer_than_the_lease_ends_the_process(frequent_checks: None) -> None:
    emitted = EmittedEvents()
    assert left_by(emitted) == [EXIT_FORCED]
    await until(lambda: bool(emitted.of(LoopBlocked)))
    assert emitted.of(LoopBlocked)[0].task == "this very test"


async def test_a_log_that_is_not_read_cannot_delay_a_process_that_must_exit(frequent_checks: None) -> None:
    stuck = threading.Event()
    try:
        assert left_by(Events([lambda event: stuck.wait(WAIT_TIMEOUT_SECONDS)])) == [EXIT_FORCED]
    finally:
        stuck.set()


def left_by(events: Events) -> list[int]:
    """The exit statuses of a process whose loop this function blocks until its lease has expired."""
    left: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        gone.set()

    guard = Watchdog(
        lease=Lease(alive_seconds=0.5, clock=SystemClock()),
        deadlines=Deadlines(SystemClock()),
        name_of=lambda task: "this very test",
        on_lease_lost=lambda: None,
        events=events,
        exit_now=leave,
    )
    guard.start()
    try:
        assert gone.wait(WAIT_TIMEOUT_SECONDS)
    finally:
        guard.stop()
    return left
