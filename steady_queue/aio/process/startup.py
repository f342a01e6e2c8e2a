"""Starting: what a process does before it works, for as long as the database takes, unless it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import create_task_group

from steady_queue.aio.process.admission import refusal
from steady_queue.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from steady_queue.aio.outage import Outage
    from steady_queue.store.drivers.pool import AsyncDriver


async def unless_stopped(stopped: asyncio.Event, step: Callable[[], Awaitable[None]]) -> None:
    """A step of the start, which ends unfinished when this is set."""
    async with create_task_group() as starting:

        async def stop() -> None:
            await stopped.wait()
            starting.cancel_scope.cancel()

        starting.start_soon(stop)
        await step()
        starting.cancel_scope.cancel()


async def admit(driver: AsyncDriver, alias: str, outage: Outage) -> ConfigurationError | None:
    """Why this database cannot be worked with; waits until it can be asked."""
    while True:
        try:
            problem = await refusal(driver, alias)
        except StoreError as error:
            await outage.wait("start", error)
            continue
        outage.over("start")
        return None if problem is None else ConfigurationError(problem)
