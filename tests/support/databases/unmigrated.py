"""A database of the same kind without tables, and migrations that are only marked as applied."""

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
def unmigrated_database(alias: str, servers: dict[str, Postgres | MariaDB], directory: Path) -> Iterator[str]:
    """The alias of an empty database on the same server as this alias, dropped at the end."""
    name = "unmigrated"
    server = servers.get(alias)
    if server is not None:
        server.create_database(name)
    try:
        where = name if server is not None else str(directory / "unmigrated.sqlite3")
        with extra_database(f"{alias}_unmigrated", twin_settings(alias, NAME=where)) as unmigrated:
            yield unmigrated
    finally:
        if server is not None:
            server.drop_database(name)


@contextmanager
def marked_as_migrated(alias: str, *names: str) -> Iterator[None]:
    """Mark these migrations as applied in the database."""
    recorder = MigrationRecorder(connections[alias])
    recorder.ensure_schema()
    for name in names:
        recorder.record_applied("steady_queue", name)
    try:
        yield
    finally:
        for name in names:
            recorder.record_unapplied("steady_queue", name)
