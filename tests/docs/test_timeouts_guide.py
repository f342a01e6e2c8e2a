"""The example of the guide to timeouts, run in a worker."""

from __future__ import annotations

import asyncio
import sys
import threading
from types import ModuleType

import pytest

from steady_queue.aio import running
from tests.docs.pages import page
from tests.support.runtime import error_of, values, wait_for_results, worker

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The first example as a module of tasks."""
    module = ModuleType("tests.shop.timeouts_guide")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(page("docs/guides/timeouts.md").blocks("python")[0], vars(module))
    return module


async def test_the_tasks_of_the_guide_end_in_time_or_fail_with_a_timeout(database: str, example: ModuleType) -> None:
    async def download(currency: str) -> None:
        if currency == "slow":
            await asyncio.Event().wait()

    def export(order: int, *, timeout: float) -> None:
        assert timeout <= 600
        if order == 0:
            threading.Event().wait(timeout)

    vars(example).update(download=download, export=export)
    async with running(worker()):
        ended = await example.fetch_rates.aenqueue("EUR"), await example.export_orders.aenqueue([1, 2])
        assert await values(*ended) == [None, 2]
        late = [
            await example.fetch_rates.using(timeout=0.05).aenqueue("slow"),
            await example.export_orders.using(timeout=0.05).aenqueue([0, 1]),
        ]
        await wait_for_results(*late)
    assert [error_of(result) for result in late] == ["steady_queue.errors.TaskTimeout"] * 2
