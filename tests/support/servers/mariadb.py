"""A private MariaDB server."""

import os
import signal
from typing import Any, ClassVar

import MySQLdb

from tests.support.servers.host import programs
from tests.support.servers.server_process import ServerProcess

PACKAGES = "mariadb-server-core mariadb-client-core"


class MariaDB(ServerProcess):
    """MariaDB on a loopback port and on a unix socket in its directory, both with the password."""

    name = "mariadb"
    stop_signal: ClassVar = signal.SIGTERM

    def __init__(self, *, durable: bool = False, max_connections: int = 200) -> None:
        self.durable = durable
        self.max_connections = max_connections
        (self._server,) = programs("mariadbd", packages=PACKAGES)
        (self._install,) = programs("mariadb-install-db", packages=PACKAGES)
        super().__init__()
        self.socket = str(self.directory / "socket")
        self._data = self.directory / "data"
        self._users = self.directory / "users.sql"

    def create_database(self, name: str, charset: str = "utf8mb4") -> None:
        """Make an empty database, whose tables have this default character set."""
        self._execute(f"CREATE DATABASE {_quoted(name)} CHARACTER SET {charset}")

    def drop_database(self, name: str) -> None:
        """Drop the database if it is there."""
        self._execute(f"DROP DATABASE IF EXISTS {_quoted(name)}")

    def prepare(self) -> None:
        """Make the data directory, and the statements that make the user."""
        self.run([self._install, *self._options(), "--skip-test-db", "--auth-root-authentication-method=normal"])
        account = f"'{self.user}'@'%'"
        self._users.write_text(
            f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {account} WITH GRANT OPTION;\n"
        )

    def command(self) -> list[str]:
        """The server in the foreground."""
        return [
            self._server,
            *self._options(),
            f"--bind-address={self.host}",
            f"--port={self.port}",
            f"--socket={self.socket}",
            f"--init-file={self._users}",
            f"--max-connections={self.max_connections}",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
        ]

    def answers(self) -> bool:
        """Whether the server takes a connection."""
        try:
            self._connect().close()
        except MySQLdb.OperationalError:
            return False
        return True

    def _options(self) -> list[str]:
        options = ["--no-defaults", f"--datadir={self._data}", f"--tmpdir={self.directory}"]
        if os.getuid() == 0:
            options.append("--user=root")  # as root the server runs only with this option
        if not self.durable:
            # 2: a commit is written, so a killed server keeps it, but synced once a second. 0 would lose commits.
            options += ["--innodb-flush-log-at-trx-commit=2", "--debug-no-sync"]
        return options

    def _connect(self) -> Any:
        return MySQLdb.connect(unix_socket=self.socket, user=self.user, password=self.password, connect_timeout=5)

    def _execute(self, statement: str) -> None:
        connection = self._connect()
        try:
            connection.query(statement)
        finally:
            connection.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
