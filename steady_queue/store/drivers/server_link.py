"""A connection to a database server: transaction and rollback, which asyncpg and aiomysql have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from steady_queue.errors import StoreConflict, StoreDataError, StoreError
from steady_queue.store.statement import drive_async

if TYPE_CHECKING:
    from steady_queue.store.statement import Operation, Row, Statement

T = TypeVar("T")


class ServerLink(ABC):
    """Runs operations on one connection; a subclass sends statements and commands, and classifies the errors."""

    #: The command that begins a transaction.
    begin = "START TRANSACTION"

    @property
    @abstractmethod
    def is_open(self) -> bool: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def abandon(self) -> None: ...

    @abstractmethod
    async def execute(self, statement: Statement) -> list[Row]: ...

    @abstractmethod
    async def command(self, text: str, *, applied_if_lost: bool = False) -> None:
        """Send a command without parameters and rows; `applied_if_lost`: without a reply it may have taken effect."""

    async def run(self, operation: Operation[T]) -> T:
        if not operation.transaction:
            return await drive_async(operation.flow(), self.execute)
        await self.command(self.begin)
        try:
            result = await drive_async(operation.flow(), self.execute)
        except StoreError as error:
            error.applied = "no"  # whichever reply was lost, the transaction was not committed
            await self._roll_back()
            raise
        await self.command("COMMIT", applied_if_lost=True)
        return result

    def survives(self, error: StoreError) -> bool:
        # After these the server has answered and the transaction was rolled back.
        return isinstance(error, (StoreConflict, StoreDataError))

    async def _roll_back(self) -> None:
        if self.is_open:
            try:
                await self.command("ROLLBACK")
            except StoreError:
                self.abandon()
