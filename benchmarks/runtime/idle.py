"""The statements and the CPU time of an idle process, on a server of its own that counts statements."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.support.processes import ROOT, WorkerProcess
from tests.support.servers import Postgres
from tests.support.servers.server_process import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.support.rounds import Context

DATABASE = "steady_queue"
#: The time in which a started worker becomes idle.
SETTLE_SECONDS = 3.0
MEASURE_SECONDS, QUICK_MEASURE_SECONDS = 25.0, 6.0
TARGET_STATEMENTS_PER_SECOND, TARGET_CPU = 2.0, 0.01
#: How many of the most frequent statements are printed.
PRINTED_STATEMENTS = 5

_LIBRARY = "pg_stat_statements"
_CALLS = f"SELECT query, calls FROM {_LIBRARY} WHERE query NOT LIKE '%{_LIBRARY}%'"
_TRANSACTIONS = (
    "SELECT 'transactions', xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)


class CountingPostgres(Postgres):
    """A server that counts every statement."""

    def command(self) -> list[str]:
        return [*super().command(), f"--shared_preload_libraries={_LIBRARY}"]


class StatementCounter(NamedTuple):
    """The calls of each statement, from a query with two columns."""

    connection: psycopg.Connection
    query: str
    source: str

    def read_calls(self) -> dict[str, int]:
        return dict(self.connection.execute(self.query.encode()).fetchall())


def measure(context: Context) -> None:
    seconds = QUICK_MEASURE_SECONDS if context.is_quick else MEASURE_SECONDS
    figures = context.figures
    with start_server() as (server, counter), _start_worker(server) as worker:
        worker.receive("ready")
        worker.send("go")
        time.sleep(SETTLE_SECONDS)
        cpu, before = worker.request_report()["cpu"], counter.read_calls()
        time.sleep(seconds)
        used, after = worker.request_report()["cpu"] - cpu, counter.read_calls()
    figures.start_section("idle", f"An idle process during {seconds:.0f} s; statements counted by {counter.source}")
    new = {text: calls - before.get(text, 0) for text, calls in after.items() if calls > before.get(text, 0)}
    rate = sum(new.values()) / seconds
    figures.add("statements on the server", rate, "per s", target=TARGET_STATEMENTS_PER_SECOND, at_most=True)
    for text, calls in sorted(new.items(), key=lambda pair: -pair[1])[:PRINTED_STATEMENTS]:
        figures.print_line(f"  {calls / seconds:5.2f}/s  {' '.join(text.split())[:100]}")
    figures.add("CPU of the process", used / seconds, "%", target=TARGET_CPU, at_most=True)


@contextmanager
def start_server() -> Iterator[tuple[Postgres, StatementCounter]]:
    has_library = True
    server: Postgres = CountingPostgres(durable=True)
    try:
        server.start()
    except ServerError:
        # Some systems have the library in another package; without it the server does not start.
        server.destroy()
        has_library = False
        server = Postgres(durable=True).start()
    try:
        server.create_database(DATABASE)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--database=postgres", "--run-syncdb", "--verbosity=0"],
            env={**os.environ, **address(server)},
            cwd=ROOT,
            check=True,
        )
        with psycopg.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, dbname=DATABASE
        ) as connection:
            connection.autocommit = True
            if has_library:
                connection.execute(f"CREATE EXTENSION {_LIBRARY}".encode())
                yield server, StatementCounter(connection, _CALLS, _LIBRARY)
            else:
                source = f"transactions, because the library {_LIBRARY} is missing"
                yield server, StatementCounter(connection, _TRANSACTIONS, source)
    finally:
        server.destroy()


def _start_worker(server: Postgres) -> WorkerProcess:
    options = {"role": "work", "alias": "postgres", "worker": {"coroutines": 100}, "expected": 0}
    return WorkerProcess("benchmarks.support.steady_queue_worker", options, environment=address(server))


def address(server: Postgres) -> dict[str, str]:
    """The environment variables from which the settings read the address of the server."""
    return {
        f"STEADY_QUEUE_TEST_POSTGRES_{name.upper()}": str(getattr(server, name))
        for name in ("host", "port", "user", "password")
    }
