"""A private PgBouncer in front of a PostgreSQL server of ours."""

import signal
from typing import ClassVar, Literal

import psycopg

from tests.support.servers.host import programs, unprivileged
from tests.support.servers.postgres import Postgres
from tests.support.servers.server_process import ServerProcess

# No unix socket: with one it would run without its port when another process has that.
CONFIGURATION = """\
[databases]
* = host={postgres.host} port={postgres.port}

[pgbouncer]
listen_addr = {bouncer.host}
listen_port = {bouncer.port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {bouncer.pool_mode}
max_client_conn = 500
server_login_retry = 0.1
"""


class PgBouncer(ServerProcess):
    """PgBouncer for every database of a PostgreSQL server, with the server's user and password."""

    name = "pgbouncer"
    # It has nothing to save, and the signal that stops it without waiting for clients differs between versions.
    stop_signal: ClassVar = signal.SIGKILL

    def __init__(
        self, postgres: Postgres, pool_mode: Literal["session", "transaction", "statement"] = "transaction"
    ) -> None:
        self.postgres = postgres
        self.pool_mode = pool_mode
        (self._server,) = programs("pgbouncer", packages="pgbouncer")
        super().__init__(account=unprivileged())
        self._configuration = self.directory / "pgbouncer.ini"
        self._users = self.directory / "users.txt"

    def prepare(self) -> None:
        """Write the list of users."""
        self._users.write_text(f'"{self.user}" "{self.password}"\n')

    def command(self) -> list[str]:
        """The pooler in the foreground, configured for the port it has now: no option names one."""
        self._configuration.write_text(CONFIGURATION.format(bouncer=self, postgres=self.postgres, users=self._users))
        return [self._server, str(self._configuration)]

    def answers(self) -> bool:
        """Whether PostgreSQL answers through the pooler."""
        try:
            psycopg.connect(
                host=self.host,
                port=self.port,
                user=self.user,
                password=self.password,
                dbname="postgres",
                connect_timeout=5,
            ).close()
        except psycopg.OperationalError:
            return False
        return True
