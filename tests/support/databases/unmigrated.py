"""A database of the same kind that nobody has migrated, and migrations that are only said to be applied."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from tests.support.databases.aliases import extra_database, twin_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import MariaDB, Postgres


@contextmanager
def fresh_database(alias: str, servers: dict[str, Postgres | MariaDB], directory: Path) -> Iterator[str]:
    """The alias of an empty database beside the one of this alias, dropped at the end."""
    name = "fresh"
    server = servers.get(alias)
    if server is not None:
        server.create_database(name)
    try:
        where = name if server is not None else str(directory / "fresh.sqlite3")
        with extra_database(f"{alias}_fresh", twin_settings(alias, NAME=where)) as fresh:
            yield fresh
    finally:
        if server is not None:
            server.drop_database(name)


@contextmanager
def said_to_be_applied(alias: str, *names: str) -> Iterator[None]:
    """The database says that it has these migrations as well."""
    recorder = MigrationRecorder(connections[alias])
    recorder.ensure_schema()
    for name in names:
        recorder.record_applied("steady_queue", name)
    try:
        yield
    finally:
        for name in names:
            recorder.record_unapplied("steady_queue", name)
