"""How many connections to a database are open, as the server or the operating system sees it."""

from __future__ import annotations

import os
from pathlib import Path

from django.db import connections

from tests.support.tables import query

_COUNT = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename IS NOT NULL",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database()",
}


def open_connections(alias: str) -> int:
    """The connections to this database; for SQLite, this process's descriptors of its file.

    There the calling thread's own connection is closed first: while one is open, SQLite keeps others' descriptors.
    """
    vendor = connections[alias].vendor
    if vendor in _COUNT:
        return int(query(alias, _COUNT[vendor])[0][0])
    connections[alias].close()
    name = str(Path(connections.databases[alias]["NAME"]).resolve())
    return sum(_target(entry) == name for entry in os.listdir("/proc/self/fd"))


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""
