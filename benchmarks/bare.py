"""The bare drivers: the rows that Steady Queue would write, written without it.

Single jobs are handed over as finished rows, so that nothing but the driver is measured. Bulk begins where
`enqueue_all` begins, with the arguments of the calls: ids, JSON and rows are made on the way.
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

from benchmarks.calls import PATH, groups

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from contextlib import AbstractContextManager

    from benchmarks.calls import Call

    Row = tuple[Any, ...]

#: Rows of one insert in bulk, and connections that a hundred coroutines share: the same as Steady Queue's.
CHUNK = 5_000
CONNECTIONS = 4

COLUMNS = ("id", "queue_name", "task_path", "arguments", "priority", "lane", "backend", "enqueued_at")
THREAD_LANE = 1

_encode = json.JSONEncoder(separators=(",", ":")).encode
_number = count()


def rows(calls: Sequence[Call]) -> list[Row]:
    """The rows of these calls, with ids that are UUIDv7 and rise."""
    now = datetime.now(UTC)
    head = time.time_ns() // 1_000_000 << 80 | 0x7 << 76 | 0b10 << 62
    return [
        (UUID(int=head | next(_number)), "default", PATH, _encode((1, *call)), 0, THREAD_LANE, "default", now)
        for call in calls
    ]


class Bare(ABC):
    """One database through its bare drivers."""

    def __init__(self, parameters: dict[str, Any], connections: int = CONNECTIONS) -> None:
        self.parameters = parameters
        self.connections = connections
        self.connection: Any = None
        self.idle: asyncio.LifoQueue[Any] = asyncio.LifoQueue()

    # -- one database's own -------------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        """Rows as the drivers take them."""

    @abstractmethod
    def connect(self) -> AbstractContextManager[Any]: ...

    @abstractmethod
    def insert(self, row: Row) -> None:
        """Store one job."""

    @abstractmethod
    def bulk(self, calls: Sequence[Call]) -> None:
        """Make and store the rows of many calls in one transaction."""

    @abstractmethod
    async def aconnect(self) -> Any: ...

    @abstractmethod
    async def ainsert(self, connection: Any, row: Row) -> None: ...

    @abstractmethod
    async def abulk(self, calls: Sequence[Call]) -> None: ...

    # -- the same for all ---------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Iterator[None]:
        with self.connect() as self.connection:
            yield

    @asynccontextmanager
    async def aopened(self) -> AsyncIterator[None]:
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
    async def taken(self) -> AsyncIterator[Any]:
        """A connection, for a while."""
        connection = await self.idle.get()
        try:
            yield connection
        finally:
            self.idle.put_nowait(connection)

    def each(self, given: Sequence[Row]) -> None:
        for row in given:
            self.insert(row)

    async def aeach(self, given: Sequence[Row]) -> None:
        async with self.taken() as connection:
            for row in given:
                await self.ainsert(connection, row)

    async def atogether(self, given: Sequence[Row]) -> None:
        for group in groups(given):
            await asyncio.gather(*map(self._ashare, group))

    async def _ashare(self, row: Row) -> None:
        connection = await self.idle.get()
        await self.ainsert(connection, row)
        self.idle.put_nowait(connection)


# -- PostgreSQL -------------------------------------------------------------------------------------------------------

_TYPES = ("uuid", "text", "text", "text", "smallint", "smallint", "text", "timestamptz")
_MARKS = [f"${at}::{type_}" for at, type_ in enumerate(_TYPES, 1)]
_PG_ONE = (
    f"WITH job AS (INSERT INTO steady_queue_job ({', '.join(COLUMNS)}) VALUES ({', '.join(_MARKS)}))"
    " INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
    f" VALUES ({_MARKS[0]}, {_MARKS[1]}, {_MARKS[5]}, {_MARKS[4]})"
)
#: The quickest way that is known: arrays for what differs from job to job, one value for what does not.
_PG_MANY = (
    f"WITH given AS (SELECT * FROM unnest({_MARKS[0]}[], {_MARKS[3]}[]) AS g(id, arguments)),"
    f" job AS (INSERT INTO steady_queue_job ({', '.join(COLUMNS)})"
    f" SELECT id, {_MARKS[1]}, {_MARKS[2]}, arguments, {', '.join(_MARKS[4:])} FROM given)"
    " INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority)"
    f" SELECT id, {_MARKS[1]}, {_MARKS[5]}, {_MARKS[4]} FROM given"
)
_PSYCOPG_ONE, _PSYCOPG_MANY = (re.sub(r"\$(\d+)", r"%(p\1)s", text) for text in (_PG_ONE, _PG_MANY))


class BarePostgres(Bare):
    """psycopg and asyncpg: one statement writes both rows of a job, or of many."""

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        return rows(calls)

    def connect(self) -> AbstractContextManager[Any]:
        return psycopg.connect(**self.parameters, autocommit=True)

    def insert(self, row: Row) -> None:
        self.connection.execute(_PSYCOPG_ONE, _named(row))

    def bulk(self, calls: Sequence[Call]) -> None:
        with self.connection.transaction():
            for chunk in groups(rows(calls), CHUNK):
                self.connection.execute(_PSYCOPG_MANY, _named(_columns(chunk)))

    async def aconnect(self) -> Any:
        parameters = {"database" if name == "dbname" else name: value for name, value in self.parameters.items()}
        return await asyncpg.connect(**parameters)

    async def ainsert(self, connection: Any, row: Row) -> None:
        await connection.execute(_PG_ONE, *row)

    async def abulk(self, calls: Sequence[Call]) -> None:
        async with self.taken() as connection, connection.transaction():
            for chunk in groups(rows(calls), CHUNK):
                await connection.execute(_PG_MANY, *_columns(chunk))


def _named(values: Sequence[Any]) -> dict[str, Any]:
    return {f"p{at}": value for at, value in enumerate(values, 1)}


def _columns(made: Sequence[Row]) -> list[Any]:
    """The parameters of an insert of many rows."""
    ids, queue_name, path, arguments, *others = zip(*made, strict=True)
    return [list(ids), queue_name[0], path[0], list(arguments), *(column[0] for column in others)]


# -- MySQL and MariaDB ------------------------------------------------------------------------------------------------

_JOB = f"INSERT INTO steady_queue_job ({', '.join(COLUMNS)}) VALUES ({', '.join(['%s'] * len(COLUMNS))})"
_READY = "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (%s, %s, %s, %s)"
_READ_COMMITTED = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"


def _ready(row: Row) -> Row:
    return (row[0], row[1], row[5], row[4])


class BareMariaDB(Bare):
    """mysqlclient and aiomysql: two inserts and a commit; their `executemany` sends inserts of many rows."""

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        return [(id_.hex, *others, now.replace(tzinfo=None)) for id_, *others, now in rows(calls)]

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(MySQLdb.connect(**self.parameters, charset="utf8mb4")) as connection:
            connection.query(_READ_COMMITTED)
            yield connection

    def insert(self, row: Row) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(_JOB, row)
            cursor.execute(_READY, _ready(row))
        self.connection.commit()

    def bulk(self, calls: Sequence[Call]) -> None:
        with self.connection.cursor() as cursor:
            for chunk in groups(self.prepare(calls), CHUNK):
                cursor.executemany(_JOB, chunk)
                cursor.executemany(_READY, list(map(_ready, chunk)))
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
            await cursor.execute(_READY, _ready(row))
        await connection.commit()

    async def abulk(self, calls: Sequence[Call]) -> None:
        async with self.taken() as connection, connection.cursor() as cursor:
            for chunk in groups(self.prepare(calls), CHUNK):
                await cursor.executemany(_JOB, chunk)
                await cursor.executemany(_READY, list(map(_ready, chunk)))
            await connection.commit()


# -- SQLite -----------------------------------------------------------------------------------------------------------

_JOB_LITE, _READY_LITE = _JOB.replace("%s", "?"), _READY.replace("%s", "?")


class BareSQLite(Bare):
    """sqlite3, and aiosqlite as it is usually used: with a hop to its thread for each call. It has one writer."""

    def __init__(self, parameters: dict[str, Any]) -> None:
        super().__init__(parameters, connections=1)

    def prepare(self, calls: Sequence[Call]) -> list[Row]:
        made = rows(calls)
        now = made[0][-1].replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return [(id_.hex, *others, now) for id_, *others, _ in made]

    def connect(self) -> AbstractContextManager[Any]:
        return closing(sqlite3.connect(**self.parameters, isolation_level=None))

    def insert(self, row: Row) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(_JOB_LITE, row)
        self.connection.execute(_READY_LITE, _ready(row))
        self.connection.execute("COMMIT")

    def bulk(self, calls: Sequence[Call]) -> None:
        made = self.prepare(calls)
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(_JOB_LITE, made)
        self.connection.executemany(_READY_LITE, map(_ready, made))
        self.connection.execute("COMMIT")

    async def aconnect(self) -> Any:
        return await aiosqlite.connect(**self.parameters, isolation_level=None)

    async def ainsert(self, connection: Any, row: Row) -> None:
        await connection.execute("BEGIN IMMEDIATE")
        await connection.execute(_JOB_LITE, row)
        await connection.execute(_READY_LITE, _ready(row))
        await connection.execute("COMMIT")

    async def abulk(self, calls: Sequence[Call]) -> None:
        made = self.prepare(calls)
        async with self.taken() as connection:
            await connection.execute("BEGIN IMMEDIATE")
            await connection.executemany(_JOB_LITE, made)
            await connection.executemany(_READY_LITE, map(_ready, made))
            await connection.execute("COMMIT")
