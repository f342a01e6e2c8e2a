"""How many connections to a database are open, as the server or the operating system sees it."""

from __future__ import annotations

import threading

from django.db import connections

from tests.support.databases.tables import query

_COUNT = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename IS NOT NULL",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database()",
}


def open_connections(alias: str) -> int:
    """The connections to this database; for SQLite, this process's async ones, each of which has a thread.

    Its descriptors prove nothing: while one connection to a file is open, SQLite keeps those of closed ones.
    """
    vendor = connections[alias].vendor
    if vendor in _COUNT:
        return int(query(alias, _COUNT[vendor])[0][0])
    return sum("steady-queue-sqlite" in thread.name for thread in threading.enumerate())
