"""asyncpg. Parameters travel in binary, lists as arrays; rows come back as they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from steady_queue.errors import StoreConflict, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.drivers.error_codes import build_error, is_answer_lost, postgres_error
from steady_queue.store.drivers.pool import Pool
from steady_queue.store.drivers.tls_upgrade import retrieve_upgrade_errors
from steady_queue.store.sql.postgres import BEGIN, BEGIN_BEHIND_POOLER, SETTINGS, Postgres
from steady_queue.store.statement import drive_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from steady_queue.store.statement import Operation, Row, Statement

T = TypeVar("T")

retrieve_upgrade_errors()


class PostgresLink:
    """One asyncpg connection, and the command that begins its transactions."""

    def __init__(self, connection: asyncpg.Connection, begin: str = BEGIN) -> None:
        self.connection = connection
        self._begin = begin

    @property
    def is_open(self) -> bool:
        return not self.connection.is_closed()

    async def run(self, operation: Operation[T]) -> T:
        if not operation.transaction:
            return await drive_async(operation.flow(), self._execute)
        await self._command(self._begin)
        try:
            result = await drive_async(operation.flow(), self._execute)
        except StoreError as error:
            error.applied = "no"  # whatever was lost, it was never committed
            await self._roll_back()
            raise
        await self._command("COMMIT", applied_if_lost=True)
        return result

    async def close(self) -> None:
        try:
            await self.connection.close(timeout=2)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            self.abandon()

    def survives(self, error: StoreError) -> bool:
        # After these the server has answered and the transaction was rolled back.
        return isinstance(error, (StoreConflict, StoreDataError))

    def abandon(self) -> None:
        self.connection.terminate()

    async def _execute(self, statement: Statement) -> list[Row]:
        try:
            if statement.many:
                await self.connection.executemany(statement.text, statement.params)
                return []
            rows: list[Row] = await self.connection.fetch(statement.text, *statement.params)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=True) from error
        return rows

    async def _command(self, text: str, *, applied_if_lost: bool = False) -> None:
        try:
            await self.connection.execute(text)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=applied_if_lost) from error

    async def _roll_back(self) -> None:
        if self.is_open:
            try:
                await self.connection.execute("ROLLBACK")
            except _ERRORS:
                self.abandon()


#: InternalClientError: the server closed the connection, and the loop has not seen it yet.
_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    asyncio.TimeoutError,
    ValueError,
    OverflowError,
)


def _classify_error(error: BaseException, *, lost_means_unknown: bool) -> StoreError:
    """The error's kind, and whether the statement may have taken effect all the same."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate
        kind = postgres_error(code)
        unknown = lost_means_unknown and is_answer_lost(code)
        return build_error(kind, error, code, applied="unknown" if unknown else "no")
    if isinstance(error, (asyncpg.exceptions.DataError, ValueError, OverflowError)):
        return build_error(StoreDataError, error, None)
    return build_error(StoreUnavailable, error, None, applied="unknown" if lost_means_unknown else "no")


def open_pool(parameters: Mapping[str, Any], *, size: int, pooled_by_server: bool = False) -> Pool[PostgresLink]:
    """Connections to one PostgreSQL database.

    `pooled_by_server`: behind a pooler in transaction mode a statement prepared on one server connection is missing on
    the next, and session settings would leak to other clients: both are left out.
    """
    options: dict[str, Any] = dict(parameters)
    if pooled_by_server:
        options["statement_cache_size"] = 0
    else:
        options["server_settings"] = {**SETTINGS, **options.get("server_settings", {})}

    async def connect() -> PostgresLink:
        try:
            connection = await asyncpg.connect(**options)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=False) from error
        if pooled_by_server:
            # Else asyncpg switches jit off and on around its own lookups, on whichever connection the pooler gives it.
            connection._server_caps = connection._server_caps._replace(jit=False)
            return PostgresLink(connection, BEGIN_BEHIND_POOLER)
        return PostgresLink(connection)

    return Pool(Postgres(), connect, size)


async def listen(
    parameters: Mapping[str, Any], channel: str, heard: Callable[[str], None], lost: Callable[[], None]
) -> PostgresLink:
    """A connection of its own that hears notifications until it is closed; calls `lost` when it is."""

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        heard(str(payload))

    try:
        connection = await asyncpg.connect(**parameters)
    except _ERRORS as error:
        raise _classify_error(error, lost_means_unknown=False) from error
    try:
        connection.add_termination_listener(lambda _: lost())
        await connection.add_listener(channel, hear)
    except BaseException as error:
        connection.terminate()
        if isinstance(error, _ERRORS):
            raise _classify_error(error, lost_means_unknown=False) from error
        raise
    return PostgresLink(connection)
