"""aiosqlite. A whole operation runs in one hop to the connection's thread: a hop per statement halves the rate.

aiosqlite offers no public way to run several statements in one hop; `_execute` is what all its own methods use.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

import aiosqlite

from steady_queue.errors import StoreDataError, StoreError
from steady_queue.store.drivers.error_codes import build_error, sqlite_error
from steady_queue.store.drivers.pool import Pool
from steady_queue.store.sql.sqlite import SQLite
from steady_queue.store.statement import drive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from queue import SimpleQueue

    from steady_queue.store.statement import Operation, Row, Statement

T = TypeVar("T")


class SQLiteLink:
    """One aiosqlite connection with its thread."""

    def __init__(self, connection: aiosqlite.Connection, sql: SQLite) -> None:
        self.connection = connection
        self.sql = sql
        self.in_thread: Callable[..., Awaitable[Any]] = connection._execute

    @property
    def is_open(self) -> bool:
        return self.connection._running

    async def open(self) -> None:
        """Connect. Awaiting aiosqlite's connection would do so too, but loses the one it opens if it is cancelled."""
        opened = asyncio.get_running_loop().create_future()
        self.connection._thread.start()
        self.connection._tx.put_nowait((opened, self._open))
        await opened

    async def run(self, operation: Operation[T]) -> T:
        result: T = await self.in_thread(self._run, operation)
        return result

    async def close(self) -> None:
        await self.connection.close()

    def abandon(self) -> None:
        # Not `stop()`, which would report to a loop that may be closed by then.
        self.connection._running = False
        self.connection._tx.put_nowait((None, self._close_and_stop))

    def survives(self, error: StoreError) -> bool:
        return True  # rolled back, whatever it was: a busy database does not spoil the connection

    def _open(self) -> None:
        self.connection._connection = self.connection._connector()

    def _close_and_stop(self) -> object:
        if self.connection._connection is not None:
            self.connection._connection.close()
            self.connection._connection = None
        return aiosqlite.core._STOP_RUNNING_SENTINEL

    def _run(self, operation: Operation[T]) -> T:
        database = self.connection._conn
        if not operation.transaction:
            return drive(operation.flow(), self._statement)
        try:
            database.execute("BEGIN IMMEDIATE")
            result = drive(operation.flow(), self._statement)
            database.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise classify_error(error) from error
        except BaseException:
            self._roll_back()
            raise
        return result

    def _statement(self, statement: Statement) -> list[Row]:
        database = self.connection._conn
        params = self.sql.params(statement)
        try:
            if statement.many:
                database.executemany(statement.text, params)
                return []
            rows = database.execute(statement.text, params).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            raise classify_error(error) from error
        return self.sql.rows(statement, rows)

    def _roll_back(self) -> None:
        # SQLite ends the transaction by itself after some errors (full disk, I/O).
        if self.connection._conn.in_transaction:
            self.connection._conn.execute("ROLLBACK")


def classify_error(error: BaseException) -> StoreError:
    """The error's kind. Nothing is ever unknown here: the database is in this very process."""
    if not isinstance(error, sqlite3.Error):
        return build_error(StoreDataError, error, None)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return build_error(sqlite_error(code), error, code)


def open_pool(parameters: Mapping[str, Any], *, size: int = 1) -> Pool[SQLiteLink]:
    """The writer's connection to one SQLite file. More than one would only wait for each other."""
    sql = SQLite()
    options = dict(parameters)
    path = options.pop("database")
    first_commands = options.pop("init_command", "")

    async def connect() -> SQLiteLink:
        connection = aiosqlite.connect(path, **{**options, "isolation_level": None})
        # Daemon: a program that ends without closing its loop must not wait for this thread for ever.
        connection._thread = Thread(target=_serve, args=(connection._tx,), name="steady-queue-sqlite", daemon=True)
        link = SQLiteLink(connection, sql)
        try:
            await link.open()
            await link.in_thread(_prepare, link, first_commands)
        except BaseException as error:
            from anyio import CancelScope  # nobody who only enqueues needs it otherwise

            link.abandon()
            with CancelScope(shield=True):  # one that is cancelled would not wait at all
                await _ended(connection._thread)
            if isinstance(error, sqlite3.Error):
                raise classify_error(error) from error
            raise
        return link

    return Pool(sql, connect, size)


def _serve(calls: SimpleQueue[tuple[asyncio.Future[Any] | None, Callable[[], Any]]]) -> None:
    """Make the calls of a connection. aiosqlite's own loop ends with a traceback if an event loop was closed meanwhile.

    A call that was cancelled may still run when its event loop is closed.
    """
    result: Any = None
    while result is not aiosqlite.core._STOP_RUNNING_SENTINEL:
        future, call = calls.get()
        try:
            result = call()
        except BaseException as error:
            result = None
            _answer(future, aiosqlite.core.set_exception, error)
        else:
            _answer(future, aiosqlite.core.set_result, result)
        del future, call  # what a call holds must not live until the next one


def _answer(future: asyncio.Future[Any] | None, answer: Callable[..., None], value: Any) -> None:
    if future is not None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits for the answer
            future.get_loop().call_soon_threadsafe(answer, future, value)


async def _ended(thread: Thread) -> None:
    """Wait, a moment at most, for a connection's thread: it may still report to this loop, which is about to close."""
    for _ in range(100):
        if not thread.is_alive():
            return
        await asyncio.sleep(0.01)


def _prepare(link: SQLiteLink, first_commands: str) -> None:
    # WAL lets readers go on while one writes; it is a property of the file and stays.
    database = link.connection._conn
    if database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        database.execute("PRAGMA journal_mode = wal")
    for command in filter(None, map(str.strip, first_commands.split(";"))):
        database.execute(command)
