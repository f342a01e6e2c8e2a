"""What a process with nothing to do costs, on a server of its own that counts statements."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from benchmarks.hands import ROOT, Hand
from tests.support.servers import Postgres
from tests.support.servers.server_process import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scene import Scene

DATABASE = "steady_queue"
#: Until the process has found that there is nothing to do, and how long it is watched, in seconds.
SETTLE, WATCH, QUICK_WATCH = 3.0, 25.0, 6.0
STATEMENTS_BAR, CPU_BAR = 2.0, 0.01

_LIBRARY = "pg_stat_statements"
_CALLS = f"SELECT query, calls FROM {_LIBRARY} WHERE query NOT LIKE '%{_LIBRARY}%'"
_TRANSACTIONS = (
    "SELECT 'transactions', xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
)


class CountingPostgres(Postgres):
    """A server that counts every statement."""

    def command(self) -> list[str]:
        return [*super().command(), f"--shared_preload_libraries={_LIBRARY}"]


class Counter(NamedTuple):
    connection: psycopg.Connection
    text: str
    how: str

    def counts(self) -> dict[str, int]:
        return dict(self.connection.execute(self.text.encode()).fetchall())


def section(scene: Scene) -> None:
    seconds = QUICK_WATCH if scene.quick else WATCH
    figures = scene.figures
    with _server() as (server, counter), _worker(server) as worker:
        worker.hear("ready")
        worker.say("go")
        time.sleep(SETTLE)
        cpu, before = worker.ask()["cpu"], counter.counts()
        time.sleep(seconds)
        used, after = worker.ask()["cpu"] - cpu, counter.counts()
    figures.heading("idle", f"An idle process over {seconds:.0f} s; statements counted by {counter.how}")
    new = {text: calls - before.get(text, 0) for text, calls in after.items() if calls > before.get(text, 0)}
    rate = sum(new.values()) / seconds
    figures.add("statements on the server", rate, "per s", bar=STATEMENTS_BAR, at_most=True)
    for text, calls in sorted(new.items(), key=lambda pair: -pair[1])[:5]:
        figures.say(f"  {calls / seconds:5.2f}/s  {' '.join(text.split())[:100]}")
    figures.add("CPU of the process", used / seconds, "%", bar=CPU_BAR, at_most=True)


@contextmanager
def _server() -> Iterator[tuple[Postgres, Counter]]:
    counts = True
    server: Postgres = CountingPostgres(durable=True)
    try:
        server.start()
    except ServerError:
        # The library is in another package on some systems; without it the server does not start.
        server.destroy()
        counts = False
        server = Postgres(durable=True).start()
    try:
        server.create_database(DATABASE)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "--database=postgres", "--run-syncdb", "--verbosity=0"],
            env={**os.environ, **_address(server)},
            cwd=ROOT,
            check=True,
        )
        with psycopg.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, dbname=DATABASE
        ) as connection:
            connection.autocommit = True
            if counts:
                connection.execute(f"CREATE EXTENSION {_LIBRARY}".encode())
                yield server, Counter(connection, _CALLS, _LIBRARY)
            else:
                yield (
                    server,
                    Counter(connection, _TRANSACTIONS, "transactions: the library pg_stat_statements is missing"),
                )
    finally:
        server.destroy()


def _worker(server: Postgres) -> Hand:
    orders = {"role": "work", "alias": "postgres", "worker": {"coroutines": 100}, "expected": 0}
    return Hand("benchmarks.our_worker", orders, environment=_address(server))


def _address(server: Postgres) -> dict[str, str]:
    """Where benchmarks.settings finds it."""
    return {
        f"STEADY_QUEUE_TEST_POSTGRES_{name.upper()}": str(getattr(server, name))
        for name in ("host", "port", "user", "password")
    }
