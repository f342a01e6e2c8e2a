"""Counts the connections of a PostgreSQL server during a measurement."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import psycopg

from benchmarks.settings import TASKS_NAME
from tests.support.databases.tables import query

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from tests.support.servers import Postgres

COUNT_INTERVAL_SECONDS = 0.05

_COUNT = """
    SELECT count(*) FILTER (WHERE application_name <> %(tasks)s), count(*) FILTER (WHERE application_name = %(tasks)s)
    FROM pg_stat_activity
    WHERE datname = %(database)s AND backend_type = 'client backend' AND pid <> ALL(%(excluded)s)"""


class ConnectionCounter:
    """The maximum of the connections of the runtime, and of the tasks. Those of the benchmark are not counted."""

    def __init__(self, server: Postgres, database: str = "steady_queue") -> None:
        self.server = server
        self.database = database
        self.runtime = self.tasks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    def __enter__(self) -> Self:
        ((pid,),) = query("postgres", "SELECT pg_backend_pid()")
        self._excluded = [pid]
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _count(self) -> None:
        server = self.server
        with psycopg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            dbname=self.database,
            autocommit=True,
        ) as connection:
            excluded = [*self._excluded, connection.info.backend_pid]
            parameters = {"tasks": TASKS_NAME, "database": self.database, "excluded": excluded}
            while not self._stop.wait(COUNT_INTERVAL_SECONDS):
                row = connection.execute(_COUNT, parameters).fetchone()
                if row is not None:
                    self.runtime, self.tasks = max(self.runtime, row[0]), max(self.tasks, row[1])
