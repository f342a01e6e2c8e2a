"""PgQueuer's bulk enqueue, in a database of its own on the same server."""

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

    from benchmarks.calls import Call
    from tests.support.servers import Postgres

NAME = "pgqueuer"
INSTALLED = find_spec(NAME) is not None
LABEL = f"PgQueuer {version(NAME)}" if INSTALLED else "PgQueuer"
HOW_TO_INSTALL = f"{LABEL} is not installed, so its bar was not checked: pip install {NAME}"


class Rival:
    """PgQueuer on one connection of asyncpg."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        # By name: neither the package nor its tests need it.
        package: Any = import_module(NAME)
        self.queries: Any = package.Queries(package.AsyncpgDriver(connection))

    async def abulk(self, calls: Sequence[Call]) -> None:
        payloads = [json.dumps(call).encode() for call in calls]
        await self.queries.enqueue(["anything"] * len(calls), payloads, [0] * len(calls))

    async def count(self) -> int:
        """How many jobs are stored."""
        return int(await self.connection.fetchval(f"SELECT count(*) FROM {NAME}"))


@asynccontextmanager
async def rival(server: Postgres) -> AsyncIterator[Rival]:
    """PgQueuer with its own schema, made by its own installer: its tables are durable by default."""
    server.create_database(NAME)
    connection = await asyncpg.connect(
        host=server.host, port=server.port, user=server.user, password=server.password, database=NAME
    )
    try:
        made = Rival(connection)
        await made.queries.install()
        yield made
    finally:
        await connection.close()
        server.drop_database(NAME)
