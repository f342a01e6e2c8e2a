"""A few connections of one event loop: opened when needed, kept while they are usable, closed by the owner of the loop.

Deliberately less than the drivers' own pools: connections are neither reset nor checked between uses, because only
Steady Queue's statements run on them, and a connection that failed is closed.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from steady_queue.errors import StoreConflict, StoreError
from steady_queue.store.drivers.error_codes import is_lock_timeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Operation

    #: Returns the parameters of one new connection. It is called for each of them, because a password may be a token
    #: that is valid for some minutes only.
    ConnectionParameters = Callable[[], Awaitable[Mapping[str, Any]]]

T = TypeVar("T")
C = TypeVar("C", bound="Link")

#: An operation is started at most this often; then the conflict is raised.
MAX_TRIES = 5


def should_retry(operation: Operation[T], error: StoreConflict) -> bool:
    """Whether to restart an operation after this conflict."""
    return operation.retries_lock_timeout or not is_lock_timeout(error)


class Link(Protocol):
    """One connection of a driver."""

    @property
    def is_open(self) -> bool: ...
    async def run(self, operation: Operation[T]) -> T: ...
    async def close(self) -> None: ...
    def abandon(self) -> None: ...
    def survives(self, error: StoreError) -> bool:
        """Whether the connection can still be used after this error."""
        ...


class AsyncDriver(Protocol):
    """Runs operations on one database from one event loop."""

    @property
    def sql(self) -> Dialect: ...
    async def run(self, operation: Operation[T]) -> T: ...
    async def close(self) -> None: ...


class Pool(Generic[C]):
    """At most `size` connections; an operation uses one, and is restarted after a conflict."""

    def __init__(self, sql: Dialect, connect: Callable[[], Awaitable[C]], size: int) -> None:
        self.sql = sql
        self._connect = connect
        self._idle: list[C] = []
        self._free = asyncio.Semaphore(size)
        self._closed = False

    async def run(self, operation: Operation[T]) -> T:
        for attempt in range(1, MAX_TRIES + 1):
            try:
                async with self._connection() as connection:
                    return await connection.run(operation)
            except StoreConflict as error:
                if attempt == MAX_TRIES or not should_retry(operation, error):
                    raise
                await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))
        raise AssertionError("unreachable")

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    def abandon(self) -> None:
        """Close the connections of an event loop that does not run any more."""
        self._closed = True
        while self._idle:
            with suppress(RuntimeError):  # asyncio cannot close the transport properly: the loop is closed
                self._idle.pop().abandon()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[C]:
        async with self._free:
            while self._idle and not self._idle[-1].is_open:
                self._idle.pop().abandon()
            connection = self._idle.pop() if self._idle else await self._connect()
            try:
                yield connection
            except StoreError as error:
                if connection.survives(error):
                    await self._keep(connection)
                else:
                    connection.abandon()
                raise
            except BaseException:
                connection.abandon()
                raise
            await self._keep(connection)

    async def _keep(self, connection: C) -> None:
        if self._closed:
            await connection.close()
        elif connection.is_open:
            self._idle.append(connection)
        else:
            connection.abandon()
