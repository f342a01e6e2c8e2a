"""The watchdog: a task that blocks the event loop is named, with its line; a process that must not go on ends."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from steady_queue.aio import running, watchdog
from steady_queue.aio.clock import SystemClock
from steady_queue.aio.events import LoopBlocked
from steady_queue.aio.trust import Trust
from steady_queue.aio.watchdog import EXIT_UNTRUSTED, Watchdog
from tests.runtime import tasks
from tests.support.running import PATIENCE, Heard, ended, until, worker

if TYPE_CHECKING:
    import asyncio

pytestmark = pytest.mark.anyio


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog looks often."""
    monkeypatch.setattr(watchdog, "PATIENCE", 0.2)
    monkeypatch.setattr(watchdog, "LOOK_EVERY", 0.05)


async def test_a_task_that_blocks_the_loop_is_reported_with_its_name_and_line(database: str, watchful: None) -> None:
    heard = Heard()
    async with running(worker(), events=heard) as process:
        (result,) = await ended(await tasks.blocks_the_loop.aenqueue(0.8))
        assert process.services.watchdog.blocked_count >= 1
    event, *_ = [event for event in heard.of(LoopBlocked) if result.id in event.task]
    assert event.task == f"tests.runtime.tasks.blocks_the_loop ({result.id})"
    assert "tasks.py:" in event.where
    assert "blocks_the_loop: time.sleep(" in event.where
    assert event.seconds >= 0.2


async def test_a_task_that_blocks_its_own_thread_is_not_reported(database: str, watchful: None) -> None:
    heard = Heard()
    async with running(worker(), events=heard):
        (result,) = await ended(await tasks.blocks_its_thread.aenqueue(0.5))
    assert not [event for event in heard.of(LoopBlocked) if result.id in event.task]


async def test_a_blocked_loop_that_outlasts_trust_ends_the_process(watchful: None) -> None:
    left: list[int] = []
    gone = threading.Event()

    def leave(code: int) -> None:
        left.append(code)
        gone.set()

    def name_of(task: asyncio.Task[object] | None) -> str:
        return "this very test"

    heard = Heard()
    guard = Watchdog(
        trust=Trust(alive_seconds=0.5, clock=SystemClock()),
        name_of=name_of,
        lost_trust=lambda: None,
        events=heard,
        leave=leave,
    )
    guard.start()
    try:
        assert gone.wait(PATIENCE)  # in the loop's own thread: it is blocked
    finally:
        guard.stop()
    assert left == [EXIT_UNTRUSTED]
    assert heard.of(LoopBlocked)[0].task == "this very test"


async def test_a_watchdog_ends_with_its_loop() -> None:
    def guards() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "steady-queue-watchdog"]

    trust = Trust(alive_seconds=60, clock=SystemClock())
    guard = Watchdog(trust=trust, name_of=str, lost_trust=lambda: None, events=Heard())
    guard.start()
    guard.stop()
    await until(lambda: not guards())
