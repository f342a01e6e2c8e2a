"""The databases of a storm outside of a test run: private servers with the schema, and Django set up on them."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import django

from tests.support.servers import MariaDB, Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def databases(aliases: Sequence[str]) -> Iterator[None]:
    """These databases, which are removed afterwards."""
    with ExitStack() as stack:
        directory = tempfile.TemporaryDirectory(prefix="steady-queue-storm-")
        os.environ["STEADY_QUEUE_TEST_DIRECTORY"] = stack.enter_context(directory)
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        for alias in aliases:
            if alias != "sqlite":
                server: Postgres | MariaDB = Postgres() if alias == "postgres" else MariaDB()
                stack.enter_context(server)
                server.create_database("steady_queue")
                for key in ("host", "port", "user", "password"):
                    os.environ[f"STEADY_QUEUE_TEST_{alias.upper()}_{key.upper()}"] = str(getattr(server, key))
        django.setup()
        _migrate(aliases)
        yield


def _migrate(aliases: Sequence[str]) -> None:
    from django.core.management import call_command
    from django.db import connections

    for alias in aliases:
        call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
        connections[alias].close()
