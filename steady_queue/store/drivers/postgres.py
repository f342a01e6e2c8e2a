"""asyncpg. Parameters are sent in binary, lists as arrays; rows are returned unchanged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from steady_queue.errors import StoreDataError, StoreUnavailable
from steady_queue.store.drivers.error_codes import build_error, is_answer_lost, postgres_error
from steady_queue.store.drivers.pool import Pool
from steady_queue.store.drivers.server_link import ServerLink
from steady_queue.store.drivers.tls_upgrade import retrieve_upgrade_errors
from steady_queue.store.sql.postgres import BEGIN, BEGIN_BEHIND_POOLER, SETTINGS, Postgres

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.errors import StoreError
    from steady_queue.store.drivers.pool import ConnectionParameters
    from steady_queue.store.statement import Row, Statement

retrieve_upgrade_errors()


class PostgresLink(ServerLink):
    """One asyncpg connection."""

    def __init__(self, connection: asyncpg.Connection, begin: str = BEGIN) -> None:
        self.connection = connection
        self.begin = begin

    @property
    def is_open(self) -> bool:
        return not self.connection.is_closed()

    async def close(self) -> None:
        try:
            await self.connection.close(timeout=2)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            self.abandon()

    def abandon(self) -> None:
        self.connection.terminate()

    async def execute(self, statement: Statement) -> list[Row]:
        try:
            if statement.many:
                await self.connection.executemany(statement.text, statement.params)
                return []
            rows: list[Row] = await self.connection.fetch(statement.text, *statement.params)
        except _ERRORS as error:
            classified = _classify_error(error, lost_means_unknown=True)
            if isinstance(classified, StoreDataError):
                await self._end_preparation()
            raise classified from error
        return rows

    async def _end_preparation(self) -> None:
        """Release what the server has locked to prepare a statement, if a value of it could not be sent.

        Until the next statement the server waits for the values, with the locks on the tables.
        """
        with suppress(*_ERRORS):
            await self.connection.execute("SELECT 1")

    async def command(self, text: str, *, applied_if_lost: bool = False) -> None:
        try:
            await self.connection.execute(text)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=applied_if_lost) from error


#: InternalClientError: the server closed the connection, and the event loop has not noticed it yet.
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
    """The class of the error, and whether the statement may have taken effect although it failed."""
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate
        kind = postgres_error(code)
        unknown = lost_means_unknown and is_answer_lost(code)
        return build_error(kind, error, code, applied="unknown" if unknown else "no")
    if isinstance(error, (asyncpg.exceptions.DataError, ValueError, OverflowError)):
        return build_error(StoreDataError, error, None)
    return build_error(StoreUnavailable, error, None, applied="unknown" if lost_means_unknown else "no")


def open_pool(parameters: ConnectionParameters, *, size: int, pooled_by_server: bool = False) -> Pool[PostgresLink]:
    """Connections to one PostgreSQL database.

    `pooled_by_server`: behind a pooler in transaction mode a statement prepared on one server connection does not exist
    on the next, and session settings would apply to other clients: neither is used.
    """

    async def connect() -> PostgresLink:
        options: dict[str, Any] = dict(await parameters())
        if pooled_by_server:
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {**SETTINGS, **options.get("server_settings", {})}
        try:
            connection = await asyncpg.connect(**options)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=False) from error
        if pooled_by_server:
            # Otherwise asyncpg disables and enables jit around its own queries, perhaps on two different connections.
            connection._server_caps = connection._server_caps._replace(jit=False)
            return PostgresLink(connection, BEGIN_BEHIND_POOLER)
        return PostgresLink(connection)

    return Pool(Postgres(), connect, size)


async def listen(
    parameters: ConnectionParameters, channel: str, notified: Callable[[str], None], lost: Callable[[], None]
) -> PostgresLink:
    """A separate connection that calls `notified` for each notification, and `lost` when it is closed."""

    def receive(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        notified(str(payload))

    options = await parameters()
    try:
        connection = await asyncpg.connect(**options)
    except _ERRORS as error:
        raise _classify_error(error, lost_means_unknown=False) from error
    try:
        connection.add_termination_listener(lambda _: lost())
        await connection.add_listener(channel, receive)
    except BaseException as error:
        connection.terminate()
        if isinstance(error, _ERRORS):
            raise _classify_error(error, lost_means_unknown=False) from error
        raise
    return PostgresLink(connection)
