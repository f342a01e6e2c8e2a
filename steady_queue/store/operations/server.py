"""The server: whether it is new enough for the statements of this package.

The schema: which migrations of this package a database has, and whether they are those that the package knows.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Collection

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The oldest versions that will do. MariaDB before 10.11.6 missorts the ids of jobs.
OLDEST_VERSIONS = {"PostgreSQL": (14,), "MySQL": (8, 0, 1), "MariaDB": (10, 11, 6), "SQLite": (3, 35)}


def describe_server(sql: Dialect) -> Operation[str]:
    """The server's name and version: `MariaDB 11.4.2`."""
    return Operation("server version", partial(_describe, sql), transaction=False)


def find_version_problem(sql: Dialect) -> Operation[str | None]:
    """What to say of a server that is too old; None when it will do."""
    return Operation("server version", partial(_too_old, sql), transaction=False)


def _too_old(sql: Dialect) -> Flow[str | None]:
    rows = yield sql.say(sql.server_version, returns=".")
    return check_version(sql.name, str(rows[0][0]))


def _describe(sql: Dialect) -> Flow[str]:
    rows = yield sql.say(sql.server_version, returns=".")
    return " ".join(_named(sql.name, str(rows[0][0])))


def check_version(name: str, version: str) -> str | None:
    """What to say of a server's version, as it tells it: `15.4 (Debian ...)`, `11.4.2-MariaDB-log`, `3.45.1`."""
    name, number = _named(name, version)
    numbers = tuple(map(int, number.split("."))) if number[:1].isdigit() else ()
    if not numbers or numbers >= OLDEST_VERSIONS[name]:
        return None
    return f"{name} {number} is too old: {'.'.join(map(str, OLDEST_VERSIONS[name]))} or newer is needed"


def _named(name: str, version: str) -> tuple[str, str]:
    """The server's own name, and the number in its version; the whole version where there is none."""
    if name.startswith("MySQL"):
        name = "MariaDB" if "MariaDB" in version else "MySQL"
        # Older MariaDB servers put a number in front so that old replicas take them for MySQL 5.5.
        version = version.removeprefix("5.5.5-")
    found = re.search(r"\d+(\.\d+)*", version)
    return name, found[0] if found else version


def find_applied_migrations(sql: Dialect) -> Operation[list[str]]:
    """The names of the migrations that the database has; none where no migration has ever been run."""
    return Operation("schema version", partial(_applied, sql), transaction=False)


def _applied(sql: Dialect) -> Flow[list[str]]:
    # The catalogue is asked first: not every server has an error code of its own for a table that is missing.
    rows = yield sql.say(sql.has_table, "django_migrations", returns=".")
    if not rows[0][0]:
        return []
    text = "SELECT name FROM django_migrations WHERE app = ? ORDER BY name"
    rows = yield sql.say(text, "steady_queue", returns=".")
    return [str(row[0]) for row in rows]


def describe_schema_problem(alias: str, found: Collection[str], known: Collection[str]) -> str | None:
    """What to say of a database with these migrations to a package that knows those; None when they are the same."""
    if missing := sorted(set(known) - set(found)):
        where = "" if alias == "default" else f" --database={alias}"
        return (
            f"the database {alias!r} lacks migrations of steady_queue: {', '.join(missing)}; "
            f"run: manage.py migrate steady_queue{where}"
        )
    if unknown := sorted(set(found) - set(known)):
        return (
            f"the database {alias!r} is newer than this version of steady_queue (it has {', '.join(unknown)}): "
            "update the package"
        )
    return None
