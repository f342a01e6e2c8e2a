"""Another database on the server of an alias, with the queue's schema."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def second_database(alias: str, name: str) -> Iterator[str]:
    """Create another database on the same server, with the queue's schema, and yield its alias."""
    from django.core.management import call_command
    from django.db import connections

    from tests.support.databases.aliases import extra_database, twin_settings
    from tests.support.databases.tables import query

    vendor = connections[alias].vendor
    database = f"benchmark_{name}"
    if vendor == "sqlite":
        database = str(Path(os.environ["STEADY_QUEUE_TEST_DIRECTORY"]) / f"{database}.sqlite3")
    else:
        query(alias, f"CREATE DATABASE {database}")
    try:
        with extra_database(f"{alias}-{name}", twin_settings(alias, NAME=database)) as created:
            call_command("migrate", database=created, run_syncdb=True, verbosity=0)
            yield created
    finally:
        if vendor != "sqlite":
            query(alias, f"DROP DATABASE {database}")
