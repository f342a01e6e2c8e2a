"""DeadlineDriver: no operation of the runtime waits for ever. A connection to a lost server may look open for hours."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, TypeVar

from steady_queue.errors import StoreUnavailable

if TYPE_CHECKING:
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")


class DeadlineDriver:
    """A driver whose operations return, or raise `StoreUnavailable` after a number of seconds."""

    def __init__(self, driver: AsyncDriver, seconds: float) -> None:
        self.sql: Dialect = driver.sql
        self._driver = driver
        self._seconds = seconds

    async def run(self, operation: Operation[T], *, within: float = inf) -> T:
        """Run an operation; `within` is the caller's own limit, in seconds, if it is shorter than the driver's."""
        seconds = self._seconds if self._seconds < within else within
        try:
            async with asyncio.timeout(seconds):
                return await self._driver.run(operation)
        except TimeoutError:
            message = f"{operation.name}: no reply within {seconds:.0f} s"
            raise StoreUnavailable(message, applied="unknown") from None

    async def close(self) -> None:
        await self._driver.close()
