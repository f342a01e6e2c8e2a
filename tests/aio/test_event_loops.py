"""The same on both event loops: asyncio's own and uvloop."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.aio.process import watchdog
from steady_queue.events import LoopBlocked
from tests.shop.tasks import add, fail, greet
from tests.support.databases.tables import counts
from tests.support.runtime import EmittedEvents, in_thread, until, values, wait_for_results, worker
from tests.support.tasks import misbehaving, recording
from tests.support.tasks.recording import task_record

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def test_tasks_run_block_fail_and_are_stopped_on_either_loop(
    database: str, anyio_backend: tuple[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(seconds=0.3))
    monkeypatch.setattr(watchdog, "BLOCKED_SECONDS", 0.2)
    monkeypatch.setattr(watchdog, "CHECK_SECONDS", 0.05)
    is_uvloop = type(asyncio.get_running_loop()).__module__.startswith("uvloop")
    assert is_uvloop == anyio_backend[1]["use_uvloop"]
    emitted = EmittedEvents()
    async with running(worker(), events=emitted):
        assert await values(await add.aenqueue(1), await greet.aenqueue("Ada")) == [1, "Hello, Ada!"]
        failed, blocked = await wait_for_results(
            await fail.aenqueue("boom"), await misbehaving.blocks_the_loop.aenqueue(0.6)
        )
        await recording.awaits.aenqueue("released")
        await until(lambda: task_record.began == ["released"])
    assert failed.errors
    assert any(blocked.id in event.task for event in emitted.of(LoopBlocked))
    assert await in_thread(counts, database) == {"failed": 1, "ready": 1}
