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
def declared_window(alias: str, version: int, compatible_with: int) -> Iterator[None]:
    """Let the tables declare this version, and the oldest version whose code can work with them."""
    from steady_queue.models import SchemaVersion

    rows = SchemaVersion.objects.using(alias)
    before = rows.values_list("version", "compatible_with").get(id=1)
    rows.filter(id=1).update(version=version, compatible_with=compatible_with)
    try:
        yield
    finally:
        rows.filter(id=1).update(version=before[0], compatible_with=before[1])


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
