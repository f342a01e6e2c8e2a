"""A private PostgreSQL server."""

import signal
from pathlib import Path
from typing import ClassVar, LiteralString

import psycopg
from psycopg import sql

from tests.support.servers.host import programs, unprivileged
from tests.support.servers.server_process import ServerProcess


class Postgres(ServerProcess):
    """PostgreSQL on a loopback port (with the password) and on a unix socket in its directory (without)."""

    name = "postgres"
    stop_signal: ClassVar = signal.SIGINT  # "fast": rolls back and disconnects

    def __init__(self, *, durable: bool = False, max_connections: int = 200) -> None:
        self.durable = durable
        self.max_connections = max_connections
        self._server, self._initdb = programs("postgres", "initdb", packages="postgresql", also=_installed())
        super().__init__(account=unprivileged())
        self._data = self.directory / "data"

    def create_database(self, name: str) -> None:
        """Make an empty database."""
        self._execute("CREATE DATABASE {}", name)

    def drop_database(self, name: str) -> None:
        """Drop the database if it exists, even if it has connections."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def prepare(self) -> None:
        """Make the data directory and the superuser."""
        secret = self.directory / "secret"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self.run(
            [
                self._initdb,
                f"--pgdata={self._data}",
                f"--username={self.user}",
                f"--pwfile={secret}",
                "--auth-local=trust",
                "--auth-host=md5",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ]
        )

    def command(self) -> list[str]:
        """The server itself, not pg_ctl: its process is our child."""
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": self.socket_directory,
            "max_connections": str(self.max_connections),
        }
        if not self.durable:
            # Only what a crash of the machine would lose. synchronous_commit and full_page_writes stay as they are:
            # a killed server must have kept every commit, and without fsync they cost next to nothing.
            settings["fsync"] = "off"
            settings["dynamic_shared_memory_type"] = "mmap"  # files in the directory, gone with it after a kill
        return [self._server, "-D", str(self._data), *(f"--{name}={value}" for name, value in settings.items())]

    def answers(self) -> bool:
        """Whether the server takes a connection; it refuses all while it recovers."""
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host=self.socket_directory,
            port=self.port,
            user=self.user,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def _execute(self, statement: LiteralString, database: str) -> None:
        with self._connect() as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(database)))


def _installed() -> list[Path]:
    """Where Debian keeps the servers, newest version first."""
    directories = Path("/usr/lib/postgresql").glob("*/bin")
    return sorted(directories, key=lambda directory: float(directory.parent.name), reverse=True)
