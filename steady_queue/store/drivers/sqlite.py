"""aiosqlite. A whole operation is one call in the connection's thread: a call for each statement halves the rate.

aiosqlite has no public way to run several statements in one call; `_execute` is what all its own methods use.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep
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

#: How long Python's connections wait for others by default.
BUSY_SECONDS = 5.0
#: The pause between two attempts to switch a file to WAL.
SWITCH_PAUSE_SECONDS = 0.01


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
        """Connect. Awaiting aiosqlite's connection does so too, but does not close it if the await is cancelled."""
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
        # Not `stop()`, which calls back into an event loop that may be closed by then.
        self.connection._running = False
        self.connection._tx.put_nowait((None, self._close_and_stop))

    def survives(self, error: StoreError) -> bool:
        return True  # rolled back after every error: a busy database does not break the connection

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
        # SQLite rolls back by itself after some errors (full disk, I/O).
        if self.connection._conn.in_transaction:
            self.connection._conn.execute("ROLLBACK")


def classify_error(error: BaseException) -> StoreError:
    """The class of the error. Whether it was applied is always known: the database runs in this process."""
    if not isinstance(error, sqlite3.Error):
        return build_error(StoreDataError, error, None)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return build_error(sqlite_error(code), error, code)


def open_pool(parameters: Mapping[str, Any], *, size: int = 1) -> Pool[SQLiteLink]:
    """The writer's connection to one SQLite file. Several would only wait for each other."""
    sql = SQLite()
    options = dict(parameters)
    path = options.pop("database")
    first_commands = options.pop("init_command", "")

    async def connect() -> SQLiteLink:
        connection = aiosqlite.connect(path, **{**options, "isolation_level": None})
        # Daemon: a program that exits without closing its event loop must not wait for this thread.
        connection._thread = Thread(target=_serve, args=(connection._tx,), name="steady-queue-sqlite", daemon=True)
        link = SQLiteLink(connection, sql)
        try:
            await link.open()
            await link.in_thread(_prepare, link, first_commands, options.get("timeout", BUSY_SECONDS))
        except BaseException as error:
            from anyio import CancelScope  # a process that only enqueues does not need it otherwise

            link.abandon()
            with CancelScope(shield=True):  # without the shield a cancelled task would not wait
                await _wait_for_exit(connection._thread)
            if isinstance(error, sqlite3.Error):
                raise classify_error(error) from error
            raise
        return link

    return Pool(sql, connect, size)


def _serve(calls: SimpleQueue[tuple[asyncio.Future[Any] | None, Callable[[], Any]]]) -> None:
    """Run the calls of a connection. aiosqlite's own loop ends with a traceback if the event loop was closed meanwhile.

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
        del future, call  # objects that a call refers to must not live until the next call


def _answer(future: asyncio.Future[Any] | None, answer: Callable[..., None], value: Any) -> None:
    if future is not None:
        with suppress(RuntimeError):  # the event loop is closed: no task waits for the answer
            future.get_loop().call_soon_threadsafe(answer, future, value)


async def _wait_for_exit(thread: Thread) -> None:
    """Wait at most one second for a connection's thread: it may still call back into this loop, which closes soon."""
    for _ in range(100):
        if not thread.is_alive():
            return
        await asyncio.sleep(0.01)


def _prepare(link: SQLiteLink, first_commands: str, timeout_seconds: float) -> None:
    database = link.connection._conn
    if database.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _switch_to_wal(database, timeout_seconds)
    for command in filter(None, map(str.strip, first_commands.split(";"))):
        database.execute(command)


def _switch_to_wal(database: sqlite3.Connection, timeout_seconds: float) -> None:
    """Let readers read while one connection writes; this is a property of the file and stays.

    SQLite fails at once if another connection is writing, regardless of its timeout. If the file is busy for all of
    this time, it is used as it is, and the next connection tries again.
    """
    gives_up_at = monotonic() + timeout_seconds
    while True:
        try:
            database.execute("PRAGMA journal_mode = wal")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if monotonic() >= gives_up_at:
                return
            sleep(SWITCH_PAUSE_SECONDS)
        else:
            return
