"""The database servers of the tests and benchmarks: private, from installed programs, free to be killed.

    postgres.py    PostgreSQL                      mariadb.py   MariaDB
    pgbouncer.py   PgBouncer before a Postgres     daemon.py    start, stop, freeze, kill: what all of them can do
    machine.py     programs, ports, accounts       keeper.py    ends and removes what a dead test run left behind

Each server keeps its data and its port over `stop()`, `kill()` and `start()`; `destroy()`, or the end of its `with`
block, leaves no process and no file:

    with Postgres() as postgres, PgBouncer(postgres) as bouncer:
        postgres.create_database("app")
        connect(host=bouncer.host, port=bouncer.port, user=bouncer.user, password=bouncer.password, dbname="app")
"""

from tests.servers.daemon import Daemon, ServerError, wait_until
from tests.servers.machine import ServerMissing
from tests.servers.mariadb import MariaDB
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres

__all__ = ["Daemon", "MariaDB", "PgBouncer", "Postgres", "ServerError", "ServerMissing", "wait_until"]
