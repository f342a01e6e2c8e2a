"""aiomysql. Transactions are READ COMMITTED: under REPEATABLE READ claims make transactions of the application fail."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiomysql
import pymysql

from steady_queue.errors import StoreDataError, StoreUnavailable
from steady_queue.store.drivers.error_codes import build_error, mysql_error
from steady_queue.store.drivers.pool import Pool
from steady_queue.store.drivers.server_link import ServerLink
from steady_queue.store.operations.database.charset import CHARSET
from steady_queue.store.sql.mysql import IDLE_TRANSACTION_SECONDS, MySQL, check_size

if TYPE_CHECKING:
    from steady_queue.errors import StoreError
    from steady_queue.store.drivers.pool import ConnectionParameters
    from steady_queue.store.statement import Row, Statement

#: A statement waits this long for a lock of another transaction; then the operation is restarted.
LOCK_WAIT_SECONDS = 5


class MySQLLink(ServerLink):
    """One aiomysql connection, in autocommit between transactions."""

    def __init__(self, connection: aiomysql.Connection, sql: MySQL, max_packet: int) -> None:
        self.connection = connection
        self.sql = sql
        self.max_packet = max_packet

    @property
    def is_open(self) -> bool:
        reader = self.connection._reader
        return not self.connection.closed and reader is not None and not reader.at_eof()

    async def close(self) -> None:
        try:
            await self.connection.ensure_closed()
        except _ERRORS:
            self.abandon()

    def abandon(self) -> None:
        try:
            self.connection.close()
        except RuntimeError:
            # The event loop is closed. Otherwise aiomysql tries it again at the end of the program, with a traceback.
            self.connection._writer = None
            raise

    async def execute(self, statement: Statement) -> list[Row]:
        params = self.sql.params(statement)
        for row in params if statement.many else (params,):
            check_size(row, self.max_packet)
        try:
            async with self.connection.cursor() as cursor:
                if statement.many:
                    await cursor.executemany(statement.text, params)
                    return []
                await cursor.execute(statement.text, params)
                rows = await cursor.fetchall() if statement.returns else ()
        except (*_ERRORS, TypeError) as error:
            raise _classify_error(error, lost_means_unknown=True) from error
        return self.sql.rows(statement, rows)

    async def command(self, text: str, *, applied_if_lost: bool = False) -> None:
        try:
            await self.connection.query(text)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=applied_if_lost) from error


_ERRORS = (pymysql.Error, OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, RuntimeError, ValueError)


def _classify_error(error: BaseException, *, lost_means_unknown: bool) -> StoreError:
    """The class of the error, and whether the statement may have taken effect although it failed."""
    # PyMySQL raises a TypeError for a parameter of a type that it does not take: a list, and with aiomysql also bytes.
    if isinstance(error, (ValueError, TypeError)) and not isinstance(error, pymysql.Error):
        return build_error(StoreDataError, error, None)
    code = error.args[0] if isinstance(error, pymysql.Error) and error.args else None
    kind = mysql_error(code if isinstance(code, int) else None)
    unknown = lost_means_unknown and kind is StoreUnavailable
    return build_error(kind, error, code, applied="unknown" if unknown else "no")


def open_pool(parameters: ConnectionParameters, *, size: int) -> Pool[MySQLLink]:
    """Connections to one MySQL or MariaDB database."""
    sql = MySQL()

    async def connect() -> MySQLLink:
        options = await parameters()
        connection: aiomysql.Connection | None = None
        try:
            connection = await aiomysql.connect(**{**options, "autocommit": True})
            if connection.charset != CHARSET or "init_command" in options:
                # An option file, or the project's own command, has set another character set.
                await connection.set_charset(CHARSET)
            await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await connection.query(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
            if "mariadb" in connection.get_server_info().lower():
                await connection.query(f"SET SESSION idle_transaction_timeout = {IDLE_TRANSACTION_SECONDS}")
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT @@max_allowed_packet")
                (max_packet,) = await cursor.fetchone()
        except _ERRORS as error:
            if connection is not None:
                connection.close()
            raise _classify_error(error, lost_means_unknown=False) from error
        return MySQLLink(connection, sql, max_packet)

    return Pool(sql, connect, size)
