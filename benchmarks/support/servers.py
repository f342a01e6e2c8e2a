"""Starts private, durable database servers with the queue's schema, and sets Django up on them."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import django

from tests.support.servers import MariaDB, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATABASES = ("postgres", "mariadb", "sqlite")


@contextmanager
def databases(aliases: Sequence[str]) -> Iterator[dict[str, Postgres | MariaDB]]:
    """Start and migrate the servers of these aliases, and yield them; they are deleted when the block ends."""
    servers: dict[str, Postgres | MariaDB] = {}
    with ExitStack() as stack:
        os.environ["STEADY_QUEUE_TEST_DIRECTORY"] = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="steady-queue-benchmark-")
        )
        for alias in aliases:
            if alias != "sqlite":
                server = servers[alias] = Postgres(durable=True) if alias == "postgres" else MariaDB(durable=True)
                stack.enter_context(server)
                server.create_database("steady_queue")
                _export(alias, server)
        _set_up_django(aliases)
        stack.callback(_disconnect)
        yield servers


def _export(alias: str, server: Postgres | MariaDB) -> None:
    """Set the environment variables from which tests.settings reads the address of the server."""
    for key in ("host", "port", "user", "password"):
        os.environ[f"STEADY_QUEUE_TEST_{alias.upper()}_{key.upper()}"] = str(getattr(server, key))


def _set_up_django(aliases: Sequence[str]) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    django.setup()

    from django.core.management import call_command

    for alias in aliases:
        call_command("migrate", database=alias, run_syncdb=True, verbosity=0)


def parameters(alias: str) -> dict[str, Any]:
    """The connection parameters for a bare driver, with the names that the sync drivers use."""
    from django.db import connections

    settings = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        return {"database": settings["NAME"]}
    name = "dbname" if connections[alias].vendor == "postgresql" else "database"
    account = {key: settings[key.upper()] for key in ("host", "user", "password")}
    return {**account, "port": int(settings["PORT"]), name: settings["NAME"]}


def version(alias: str) -> str:
    """The name and the version of the server."""
    from django.db import connections

    connection = connections[alias]
    numbers = ".".join(map(str, connection.get_database_version()))
    name = "MariaDB" if getattr(connection, "mysql_is_mariadb", False) else connection.display_name
    return f"{name} {numbers}"


def _disconnect() -> None:
    from django.db import connections

    connections.close_all()
