"""The example of the guide to timeouts, run in a worker."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from steady_queue.aio import running
from tests.support.runtime import error_of, values, wait_for_results, worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = [pytest.mark.anyio, pytest.mark.only_on("sqlite")]


@pytest.fixture
def example(example_of: Callable[..., ModuleType]) -> ModuleType:
    """The first example as a module of tasks."""
    return example_of("timeouts", 0)


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
