"""The database servers of the tests and benchmarks: private, from installed programs, free to be killed.

    postgres.py          PostgreSQL
    mariadb.py           MariaDB
    pgbouncer.py         PgBouncer in front of a PostgreSQL server
    proxy.py             a proxy in front of a server, which a test can interrupt
    server_process.py    start, stop, freeze and kill: what all servers have in common
    host.py              the programs, ports and accounts of this host
    cleanup_process.py   ends the servers and removes the files of a test run that was killed

Each server keeps its data and its port over `stop()`, `kill()` and `start()`; `destroy()`, or the end of its `with`
block, leaves no process and no file:

    with Postgres() as postgres, PgBouncer(postgres) as bouncer:
        postgres.create_database("app")
        connect(host=bouncer.host, port=bouncer.port, user=bouncer.user, password=bouncer.password, dbname="app")
"""

from tests.support.servers.host import ServerMissing
from tests.support.servers.mariadb import MariaDB
from tests.support.servers.pgbouncer import PgBouncer
from tests.support.servers.postgres import Postgres
from tests.support.servers.server_process import ServerError, ServerProcess, wait_until

__all__ = ["MariaDB", "PgBouncer", "Postgres", "ServerError", "ServerMissing", "ServerProcess", "wait_until"]
