"""Writes the rows that Steady Queue would write with the bare database drivers.

Single jobs are passed as finished rows, so that only the driver is measured. The bulk methods start with the arguments
of the calls, as `enqueue_all` does: they also build the ids, the JSON and the rows.
"""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import aiomysql
import aiosqlite
import asyncpg
import MySQLdb
import psycopg

from benchmarks.enqueue.timing import TASK_PATH, split

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from benchmarks.enqueue.timing import Call

    Row = tuple[Any, ...]

#: The rows of one bulk insert, and the connections that a hundred coroutines share: the same as Steady Queue's.
CHUNK_ROWS = 5_000
CONNECTIONS = 4

COLUMNS = ("id", "queue_name", "task_path", "arguments", "priority", "lane", "backend", "enqueued_at")
THREAD_LANE = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode
_number = count()


def build_rows(calls: Sequence[Call]) -> list[Row]:
    """The job rows of these calls, with ascending UUIDv7 ids."""
    now = datetime.now(UTC)
    head = time.time_ns() // 1_000_000 << 80 | 0x7 << 76 | 0b10 << 62
    return [
        (UUID(int=head | next(_number)), "default", TASK_PATH, _encode((1, *call)), 0, THREAD_LANE, "default", now)
        for call in calls
    ]


class BareDriver(ABC):
    """The sync driver and the async driver of one database."""

    def __init__(self, parameters: dict[str, Any], connections: int = CONNECTIONS) -> None:
        self.parameters = parameters
        self.connections = connections
        self.connection: Any = None
        self.idle: asyncio.LifoQueue[Any] = asyncio.LifoQueue()

    # -- for each database --------------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        """The rows with the types that the drivers take."""

    @abstractmethod
    def connect(self) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def insert(self, row: Row) -> None:
        """Store one job."""

    @abstractmethod
    def bulk(self, calls: Sequence[Call]) -> None:
        """Build and store the rows of many calls in one transaction."""

    @abstractmethod
    async def aconnect(self) -> Any: ...

    @abstractmethod
    async def ainsert(self, connection: Any, row: Row) -> None: ...

    @abstractmethod
    async def abulk(self, calls: Sequence[Call]) -> None: ...

    # -- for all databases --------------------------------------------------------------------------------------------

    @contextmanager
    def open(self) -> Iterator[None]:
        with self.connect() as self.connection:
            yield

    @asynccontextmanager
    async def aopen(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self.idle = asyncio.LifoQueue()
            for _ in range(self.connections):
                connection = await self.aconnect()
                stack.push_async_callback(self.aclose, connection)
                self.idle.put_nowait(connection)
            yield

    async def aclose(self, connection: Any) -> None:
        await connection.close()

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Any]:
        """An idle connection, until the block ends."""
        connection = await self.idle.get()
        try:
            yield connection
        finally:
            self.idle.put_nowait(connection)

    def one_by_one(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.insert(row)

    async def aone_by_one(self, rows: Sequence[Row]) -> None:
        async with self.borrow() as connection:
            for row in rows:
                await self.ainsert(connection, row)

    async def aconcurrently(self, rows: Sequence[Row]) -> None:
        for group in split(rows):
            await asyncio.gather(*map(self._aborrow_and_insert, group))

    async def _aborrow_and_insert(self, row: Row) -> None:
        connection = await self.idle.get()
        await self.ainsert(connection, row)
        self.idle.put_nowait(connection)


# -- PostgreSQL -------------------------------------------------------------------------------------------------------

_TYPES = ("uuid", "text", "text", "text", "smallint", "smallint", "text", "timestamptz")
_PLACEHOLDERS = [f"${at}::{type_}" for at, type_ in enumerate(_TYPES, 1)]
_POSTGRES_ONE = (
    f"WITH job AS (INSERT INTO steady_queue_job ({', '.join(COLUMNS)}) VALUES ({', '.join(_PLACEHOLDERS)}))"
    " INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
    f" VALUES ({_PLACEHOLDERS[0]}, {_PLACEHOLDERS[1]}, {_PLACEHOLDERS[5]}, {_PLACEHOLDERS[4]})"
)
#: The fastest known statement: arrays for the values that differ between jobs, single values for the others.
_POSTGRES_MANY = (
    f"WITH new_jobs AS (SELECT * FROM unnest({_PLACEHOLDERS[0]}[], {_PLACEHOLDERS[3]}[]) AS g(id, arguments)),"
    f" job AS (INSERT INTO steady_queue_job ({', '.join(COLUMNS)})"
    f" SELECT id, {_PLACEHOLDERS[1]}, {_PLACEHOLDERS[2]}, arguments, {', '.join(_PLACEHOLDERS[4:])} FROM new_jobs)"
    " INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
    f" SELECT id, {_PLACEHOLDERS[1]}, {_PLACEHOLDERS[5]}, {_PLACEHOLDERS[4]} FROM new_jobs"
)
_PSYCOPG_ONE, _PSYCOPG_MANY = (re.sub(r"\$(\d+)", r"%(p\1)s", text) for text in (_POSTGRES_ONE, _POSTGRES_MANY))


class BarePostgres(BareDriver):
    """psycopg and asyncpg: one statement writes both rows of one job or of many jobs."""

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        return build_rows(calls)

    def connect(self) -> AbstractContextManager[Any]:
        return psycopg.connect(**self.parameters, autocommit=True)

    def insert(self, row: Row) -> None:
        self.connection.execute(_PSYCOPG_ONE, _name_parameters(row))

    def bulk(self, calls: Sequence[Call]) -> None:
        with self.connection.transaction():
            for chunk in split(build_rows(calls), CHUNK_ROWS):
                self.connection.execute(_PSYCOPG_MANY, _name_parameters(_bulk_parameters(chunk)))

    async def aconnect(self) -> Any:
        parameters = {"database" if name == "dbname" else name: value for name, value in self.parameters.items()}
        return await asyncpg.connect(**parameters)

    async def ainsert(self, connection: Any, row: Row) -> None:
        await connection.execute(_POSTGRES_ONE, *row)

    async def abulk(self, calls: Sequence[Call]) -> None:
        async with self.borrow() as connection, connection.transaction():
            for chunk in split(build_rows(calls), CHUNK_ROWS):
                await connection.execute(_POSTGRES_MANY, *_bulk_parameters(chunk))


def _name_parameters(values: Sequence[Any]) -> dict[str, Any]:
    return {f"p{at}": value for at, value in enumerate(values, 1)}


def _bulk_parameters(rows: Sequence[Row]) -> list[Any]:
    """The parameters of an insert of many rows."""
    ids, queue_name, path, arguments, *others = zip(*rows, strict=True)
    return [list(ids), queue_name[0], path[0], list(arguments), *(column[0] for column in others)]


# -- MySQL and MariaDB ------------------------------------------------------------------------------------------------

_JOB = f"INSERT INTO steady_queue_job ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
_READY = "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (%s, %s, %s, %s)"
_READ_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


def _ready_row(row: Row) -> Row:
    return (row[0], row[1], row[5], row[4])


class BareMariaDB(BareDriver):
    """mysqlclient and aiomysql: two inserts and a commit; their `executemany` sends inserts of many rows."""

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        return [(id_.hex, *others, now.replace(tzinfo=None)) for id_, *others, now in build_rows(calls)]

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(MySQLdb.connect(**self.parameters, charset="utf8mb4")) as connection:
            connection.query(_READ_COMMITTED)
            yield connection

    def insert(self, row: Row) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(_JOB, row)
            cursor.execute(_READY, _ready_row(row))
        self.connection.commit()

    def bulk(self, calls: Sequence[Call]) -> None:
        with self.connection.cursor() as cursor:
            for chunk in split(self.prepare(calls), CHUNK_ROWS):
                cursor.executemany(_JOB, chunk)
                cursor.executemany(_READY, list(map(_ready_row, chunk)))
        self.connection.commit()

    async def aconnect(self) -> Any:
        parameters = {"db" if name == "database" else name: value for name, value in self.parameters.items()}
        connection = await aiomysql.connect(**parameters, charset="utf8mb4")
        await connection.query(_READ_COMMITTED)
        return connection

    async def aclose(self, connection: Any) -> None:
        await connection.ensure_closed()

    async def ainsert(self, connection: Any, row: Row) -> None:
        async with connection.cursor() as cursor:
            await cursor.execute(_JOB, row)
            await cursor.execute(_READY, _ready_row(row))
        await connection.commit()

    async def abulk(self, calls: Sequence[Call]) -> None:
        async with self.borrow() as connection, connection.cursor() as cursor:
            for chunk in split(self.prepare(calls), CHUNK_ROWS):
                await cursor.executemany(_JOB, chunk)
                await cursor.executemany(_READY, list(map(_ready_row, chunk)))
            await connection.commit()


# -- SQLite -----------------------------------------------------------------------------------------------------------

_SQLITE_JOB, _SQLITE_READY = _JOB.replace("%s", "?"), _READY.replace("%s", "?")


class BareSQLite(BareDriver):
    """sqlite3, and aiosqlite as it is usually used: each call switches to its thread. SQLite has one writer."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        super().__init__(parameters, connections=1)

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        rows = build_rows(calls)
        now = rows[0][-1].replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return [(id_.hex, *others, now) for id_, *others, _ in rows]

    def connect(self) -> AbstractContextManager[Any]:
        return closing(sqlite3.connect(**self.parameters, isolation_level=None))

    def insert(self, row: Row) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(_SQLITE_JOB, row)
        self.connection.execute(_SQLITE_READY, _ready_row(row))
        self.connection.execute("COMMIT")

    def bulk(self, calls: Sequence[Call]) -> None:
        rows = self.prepare(calls)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(_SQLITE_JOB, rows)
        self.connection.executemany(_SQLITE_READY, map(_ready_row, rows))
        self.connection.execute("COMMIT")

    async def aconnect(self) -> Any:
        return await aiosqlite.connect(**self.parameters, isolation_level=None)

    async def ainsert(self, connection: Any, row: Row) -> None:
        await connection.execute("BEGIN IMMEDIATE")
        await connection.execute(_SQLITE_JOB, row)
        await connection.execute(_SQLITE_READY, _ready_row(row))
        await connection.execute("COMMIT")

    async def abulk(self, calls: Sequence[Call]) -> None:
        rows = self.prepare(calls)
        async with self.borrow() as connection:
            await connection.execute("BEGIN IMMEDIATE")
            await connection.executemany(_SQLITE_JOB, rows)
            await connection.executemany(_SQLITE_READY, map(_ready_row, rows))
            await connection.execute("COMMIT")
