"""Patience: no operation of the runtime waits for ever. A connection that lost its server may look whole for hours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from steady_queue.errors import StoreUnavailable

if TYPE_CHECKING:
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

T = TypeVar("T")

#: How long an operation may take at most, in seconds.
LONGEST = 30.0


def within(trusted: float) -> float:
    """How long an operation may take in a process that trusts itself for so long: a part of that."""
    return max(1.0, min(LONGEST, trusted / 4))


class Patient:
    """A driver whose operations end: with an answer, or as unavailable after so many seconds."""

    def __init__(self, driver: AsyncDriver, seconds: float) -> None:
        self.sql: Dialect = driver.sql
        self._driver = driver
        self._seconds = seconds

    async def run(self, operation: Operation[T]) -> T:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._driver.run(operation)
        except TimeoutError:
            message = f"{operation.name}: no answer within {self._seconds:.0f} s"
            raise StoreUnavailable(message, applied="unknown") from None

    async def close(self) -> None:
        await self._driver.close()
