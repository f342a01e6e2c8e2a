"""The watchdog: a task that blocks the event loop is named, with its line; a process that must not go on ends."""

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
from tests.support.runtime import PATIENCE, Heard, ended, until, worker
from tests.support.tasks import recording

pytestmark = pytest.mark.anyio


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog looks often."""
    monkeypatch.setattr(watchdog, "BLOCKED_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "CHECK_SECONDS", 0.05)


async def test_a_task_that_blocks_the_loop_is_reported_with_its_name_and_line(database: str, watchful: None) -> None:
    heard = Heard()
    async with running(worker(), events=heard):
        (result,) = await ended(await recording.blocks_the_loop.aenqueue(0.8))
    event, *_ = [event for event in heard.of(LoopBlocked) if result.id in event.task]
    assert event.task == f"tests.support.tasks.recording.blocks_the_loop ({result.id})"
    assert "recording.py:" in event.where
    assert "blocks_the_loop: time.sleep(" in event.where
    assert event.seconds >= 0.2


async def test_a_task_that_blocks_its_own_thread_is_not_reported(database: str, watchful: None) -> None:
    heard = Heard()
    async with running(worker(), events=heard):
        (result,) = await ended(await recording.blocks_its_thread.aenqueue(0.5))
    assert not [event for event in heard.of(LoopBlocked) if result.id in event.task]


async def test_a_blocked_loop_that_outlasts_trust_ends_the_process(watchful: None) -> None:
    heard = Heard()
    assert left_by(heard) == [EXIT_FORCED]
    await until(lambda: bool(heard.of(LoopBlocked)))
    assert heard.of(LoopBlocked)[0].task == "this very test"


async def test_a_log_that_nobody_reads_cannot_keep_a_process_that_must_end(watchful: None) -> None:
    stuck = threading.Event()
    try:
        assert left_by(Events([lambda event: stuck.wait(PATIENCE)])) == [EXIT_FORCED]
    finally:
        stuck.set()


def left_by(events: Events) -> list[int]:
    """How a process leaves whose loop is blocked, by this very function, past the time of its trust."""
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
        assert gone.wait(PATIENCE)
    finally:
        guard.stop()
    return left
