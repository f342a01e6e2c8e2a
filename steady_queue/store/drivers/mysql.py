"""aiomysql. Every transaction of ours is READ COMMITTED: under REPEATABLE READ claims kill users' transactions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import aiomysql
import pymysql

from steady_queue.errors import StoreConflict, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.drivers.error_codes import build_error, mysql_error
from steady_queue.store.drivers.pool import Pool
from steady_queue.store.operations.charset import CHARSET
from steady_queue.store.sql.mysql import IDLE_TRANSACTION_SECONDS, MySQL, check_size
from steady_queue.store.statement import drive_async

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.store.statement import Operation, Row, Statement

T = TypeVar("T")

#: How long a statement of ours may wait for another's lock before it is begun anew, in seconds.
LOCK_WAIT_SECONDS = 5


class MySQLLink:
    """One aiomysql connection, in autocommit between transactions."""

    def __init__(self, connection: aiomysql.Connection, sql: MySQL, packet: int) -> None:
        self.connection = connection
        self.sql = sql
        self.packet = packet

    @property
    def is_open(self) -> bool:
        reader = self.connection._reader
        return not self.connection.closed and reader is not None and not reader.at_eof()

    async def run(self, operation: Operation[T]) -> T:
        if not operation.transaction:
            return await drive_async(operation.flow(), self._execute)
        await self._command("START TRANSACTION")
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
            await self.connection.ensure_closed()
        except _ERRORS:
            self.abandon()

    def survives(self, error: StoreError) -> bool:
        # After these the server has answered and the transaction was rolled back.
        return isinstance(error, (StoreConflict, StoreDataError))

    def abandon(self) -> None:
        self.connection.close()

    async def _execute(self, statement: Statement) -> list[Row]:
        params = self.sql.params(statement)
        for row in params if statement.many else (params,):
            check_size(row, self.packet)
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

    async def _command(self, text: str, *, applied_if_lost: bool = False) -> None:
        try:
            await self.connection.query(text)
        except _ERRORS as error:
            raise _classify_error(error, lost_means_unknown=applied_if_lost) from error

    async def _roll_back(self) -> None:
        if self.is_open:
            try:
                await self.connection.query("ROLLBACK")
            except _ERRORS:
                self.abandon()


_ERRORS = (pymysql.Error, OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, RuntimeError, ValueError)


def _classify_error(error: BaseException, *, lost_means_unknown: bool) -> StoreError:
    """The error's kind, and whether the statement may have taken effect all the same."""
    # PyMySQL raises a TypeError for a parameter of a type that it does not take: a list, and with aiomysql also bytes.
    if isinstance(error, (ValueError, TypeError)) and not isinstance(error, pymysql.Error):
        return build_error(StoreDataError, error, None)
    code = error.args[0] if isinstance(error, pymysql.Error) and error.args else None
    kind = mysql_error(code if isinstance(code, int) else None)
    unknown = lost_means_unknown and kind is StoreUnavailable
    return build_error(kind, error, code, applied="unknown" if unknown else "no")


def open_pool(parameters: Mapping[str, Any], *, size: int) -> Pool[MySQLLink]:
    """Connections to one MySQL or MariaDB database."""
    sql = MySQL()

    async def connect() -> MySQLLink:
        connection: aiomysql.Connection | None = None
        try:
            connection = await aiomysql.connect(**{**parameters, "autocommit": True})
            if connection.charset != CHARSET or "init_command" in parameters:
                # An option file, or the project's own command, has chosen another.
                await connection.set_charset(CHARSET)
            await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await connection.query(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
            if "mariadb" in connection.get_server_info().lower():
                await connection.query(f"SET SESSION idle_transaction_timeout = {IDLE_TRANSACTION_SECONDS}")
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT @@max_allowed_packet")
                (packet,) = await cursor.fetchone()
        except _ERRORS as error:
            if connection is not None:
                connection.close()
            raise _classify_error(error, lost_means_unknown=False) from error
        return MySQLLink(connection, sql, packet)

    return Pool(sql, connect, size)
