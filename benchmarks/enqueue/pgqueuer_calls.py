"""Enqueues in bulk with PgQueuer, in a database of its own on the same server."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import asyncpg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.enqueue.timing import Call
    from tests.support.servers import Postgres

NAME = "pgqueuer"
IS_INSTALLED = find_spec(NAME) is not None
LABEL = f"PgQueuer {version(NAME)}" if IS_INSTALLED else "PgQueuer"
HOW_TO_INSTALL = f"{LABEL} is not installed, so its target was not checked. To install it: pip install {NAME}."


class PgQueuer:
    """PgQueuer on one asyncpg connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        # Imported by name, because it may not be installed.
        package: Any = import_module(NAME)
        self.queries: Any = package.Queries(package.AsyncpgDriver(connection))

    async def abulk(self, calls: Sequence[Call]) -> None:
        payloads = [json.dumps(call).encode() for call in calls]
        await self.queries.enqueue(["anything"] * len(calls), payloads, [0] * len(calls))

    async def count_jobs(self) -> int:
        """The number of stored jobs."""
        return int(await self.connection.fetchval(f"SELECT count(*) FROM {NAME}"))


@asynccontextmanager
async def open_pgqueuer(server: Postgres) -> AsyncIterator[PgQueuer]:
    """PgQueuer with the schema that its own installer creates: its tables are durable by default."""
    server.create_database(NAME)
    connection = await asyncpg.connect(
        host=server.host, port=server.port, user=server.user, password=server.password, database=NAME
    )
    try:
        pgqueuer = PgQueuer(connection)
        await pgqueuer.queries.install()
        yield pgqueuer
    finally:
        await connection.close()
        server.drop_database(NAME)
