"""The number of waiting tasks: counted up to a limit, and missing during an outage or if the count takes too long."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest

from steady_queue.aio.command import waiting_tasks
from steady_queue.aio.command.waiting_tasks import WaitingTasks
from steady_queue.aio.timing import SystemClock
from steady_queue.db.aliases import open_async
from steady_queue.errors import StoreUnavailable
from steady_queue.store.queue_selection import QueueSelection
from tests.shop.tasks import add
from tests.support.wait import until

if TYPE_CHECKING:
    from steady_queue.store.drivers.pool import AsyncDriver

pytestmark = pytest.mark.anyio


class Interrupted:
    """A driver whose database can be made unavailable, or can be kept from answering."""

    def __init__(self, driver: AsyncDriver) -> None:
        self.sql = driver.sql
        self.is_available = True
        self.is_slow = False
        self._driver = driver

    async def run(self, operation: Any) -> Any:
        if not self.is_available:
            raise StoreUnavailable("on purpose")
        if self.is_slow:
            await asyncio.Event().wait()
        return await self._driver.run(operation)


async def test_it_counts_up_to_the_limit_and_survives_an_outage(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_tasks, "REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(waiting_tasks, "COST_FACTOR", 0)
    monkeypatch.setattr(waiting_tasks, "QUERY_SECONDS", 0.3)
    monkeypatch.setattr(waiting_tasks, "MAX_COUNTED_TASKS", 2)
    driver = open_async(database, size=1)
    interrupted = Interrupted(driver)
    waiting = WaitingTasks([QueueSelection(["*"])], driver=cast("AsyncDriver", interrupted), clock=SystemClock())
    assert waiting.text is None
    running = asyncio.create_task(waiting.run())
    try:
        await until(lambda: waiting.text == "0 waiting")
        for _ in range(2):
            await add.aenqueue(1)
        await until(lambda: waiting.text == "2 waiting")
        await add.aenqueue(1)
        await until(lambda: waiting.text == "2+ waiting")
        interrupted.is_available = False
        await until(lambda: waiting.is_unavailable and waiting.text is None)
        interrupted.is_available, interrupted.is_slow = True, True
        await until(lambda: not waiting.is_unavailable)
        assert waiting.text is None
        interrupted.is_slow = False
        await until(lambda: not waiting.is_unavailable and waiting.text == "2+ waiting")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await driver.close()
