"""The server's connections, counted while something runs."""

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

#: Between two looks, in seconds.
LOOK_EVERY = 0.05

_COUNT = """
    SELECT count(*) FILTER (WHERE application_name <> %(tasks)s), count(*) FILTER (WHERE application_name = %(tasks)s)
    FROM pg_stat_activity
    WHERE datname = %(database)s AND backend_type = 'client backend' AND pid <> ALL(%(watchers)s)"""


class Backends:
    """The most connections at once: of the runtime, and of the tasks it runs. Our own are not counted."""

    def __init__(self, server: Postgres, database: str = "steady_queue") -> None:
        self.server = server
        self.database = database
        self.runtime = self.tasks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        ((own,),) = query("postgres", "SELECT pg_backend_pid()")
        self._watchers = [own]
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        server = self.server
        with psycopg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            dbname=self.database,
            autocommit=True,
        ) as connection:
            watchers = [*self._watchers, connection.info.backend_pid]
            given = {"tasks": TASKS_NAME, "database": self.database, "watchers": watchers}
            while not self._over.wait(LOOK_EVERY):
                row = connection.execute(_COUNT, given).fetchone()
                if row is not None:
                    self.runtime, self.tasks = max(self.runtime, row[0]), max(self.tasks, row[1])
