"""A SQLite file that is not in WAL mode yet: the first connection switches it, also while another connection writes."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from steady_queue.store.drivers.sqlite import open_pool
from steady_queue.store.sql.sqlite import SQLite
from steady_queue.store.statement import Operation
from tests.support.store.statements import only

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

COUNT = Operation("count", lambda: only(SQLite().statement("SELECT count(*) FROM t", returns=".")), transaction=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "queue.sqlite3"


@pytest.fixture
def writer(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the file, in which it has begun to write."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t VALUES (1)")
        yield connection


def mode_of(file: Path) -> str:
    with closing(sqlite3.connect(file)) as connection:
        return str(connection.execute("PRAGMA journal_mode").fetchone()[0])


async def test_the_first_connection_waits_for_a_writer_and_switches_the_file(
    file: Path, writer: sqlite3.Connection
) -> None:
    pool = open_pool({"database": str(file), "timeout": 60})
    counting = asyncio.create_task(pool.run(COUNT))
    # SQLite itself fails at once in this case.
    ended, _ = await asyncio.wait({counting}, timeout=0.2)
    assert not ended
    writer.execute("COMMIT")
    try:
        assert (await counting)[0][0] == 1
    finally:
        await pool.close()
    assert mode_of(file) == "wal"


async def test_a_file_that_stays_busy_is_used_as_it_is(file: Path, writer: sqlite3.Connection) -> None:
    pool = open_pool({"database": str(file), "timeout": 0.1})
    reading = Operation("read", COUNT.flow, transaction=False)
    try:
        assert (await pool.run(reading))[0][0] == 0
    finally:
        await pool.close()
    writer.execute("COMMIT")
    assert mode_of(file) == "delete"
