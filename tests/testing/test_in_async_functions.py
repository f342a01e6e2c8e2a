"""`arun_pending` awaited in a test's own event loop, where sync code has a thread and a connection of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from steady_queue.testing import arun_pending, assert_enqueued, assert_not_enqueued
from tests.shop import tasks as shop
from tests.support.databases.tables import counts
from tests.testing import tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.contract]


@pytest.fixture(autouse=True)
async def _thread_of_sync_code() -> AsyncIterator[None]:
    """The connection of the thread that `sync_to_async` uses is closed at the end."""
    yield
    await sync_to_async(connections.close_all)()


async def test_tasks_run_and_so_do_those_that_they_enqueue(database: str) -> None:
    await tasks.anamed.aenqueue("async")
    await tasks.named.aenqueue("sync")
    await tasks.aspreads.aenqueue(2)
    await tasks.spreads.aenqueue(1)
    await tasks.limited.aenqueue("ada", 7)

    results = await arun_pending()

    assert [result.return_value for result in results] == ["async", "sync", 2, 1, 7, 1, 0, 0]


async def test_the_loop_goes_on_while_sync_tasks_run(database: str) -> None:
    await tasks.areturns_loop.aenqueue()
    (result,) = await arun_pending()
    assert result.return_value == id(asyncio.get_running_loop())


async def test_a_failure_can_be_raised(database: str) -> None:
    await tasks.afails.aenqueue("nothing found")
    await shop.fail.aenqueue("no luck")
    with pytest.raises(LookupError, match="nothing found"):
        await arun_pending(raising=True)
    with pytest.raises(ValueError, match="no luck"):
        await arun_pending(raising=True)


async def test_a_timeout_gives_the_task_back(database: str) -> None:
    await tasks.waits.aenqueue()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await arun_pending()
    assert await sync_to_async(counts)(database) == {"ready": 1}


async def test_assertions_are_sync_code(database: str) -> None:
    await tasks.named.aenqueue("Ada")
    await sync_to_async(assert_enqueued)(tasks.named, args=["Ada"])
    await sync_to_async(assert_not_enqueued)(tasks.named, args=["Alan"])
