"""The server and the schema: whether the server is new enough, and which migrations of this package it has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.distribution import NAME
from steady_queue.store.names import database_option
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Collection

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The version of the tables that this code was written for: that of its newest migration.
SCHEMA_VERSION = 3
#: The oldest supported versions. MariaDB before 10.11.6 sorts the ids of jobs wrongly.
OLDEST_VERSIONS = {"PostgreSQL": (14,), "MySQL": (8, 0, 1), "MariaDB": (10, 11, 6), "SQLite": (3, 35)}


@operation(transaction=False)
def describe_server(sql: Dialect) -> Flow[str]:
    """The server's name and version: `MariaDB 11.4.2`."""
    rows = yield sql.statement(sql.server_version, returns=".")
    return " ".join(_parse_version(sql.name, str(rows[0][0])))


@operation(transaction=False)
def find_version_problem(sql: Dialect) -> Flow[str | None]:
    """The error message for a server that is too old; None when it is supported."""
    rows = yield sql.statement(sql.server_version, returns=".")
    return check_version(sql.name, str(rows[0][0]))


def check_version(name: str, version: str) -> str | None:
    """The error message for a version as the server returns it: `15.4 (Debian ...)`, `11.4.2-MariaDB-log`, `3.45.1`."""
    name, number = _parse_version(name, version)
    numbers = tuple(map(int, number.split("."))) if number[:1].isdigit() else ()
    if not numbers or numbers >= OLDEST_VERSIONS[name]:
        return None
    return f"{name} {number} is too old: {'.'.join(map(str, OLDEST_VERSIONS[name]))} or newer is needed"


def _parse_version(name: str, version: str) -> tuple[str, str]:
    """The name of the server, and the number in its version; the whole version where there is none."""
    if name.startswith("MySQL"):
        name = "MariaDB" if "MariaDB" in version else "MySQL"
        # Older MariaDB servers prefix a number, so that old replicas treat them as MySQL 5.5.
        version = version.removeprefix("5.5.5-")
    found = re.search(r"\d+(\.\d+)*", version)
    return name, found[0] if found else version


@operation(transaction=False)
def find_applied_migrations(sql: Dialect) -> Flow[list[str]]:
    """The names of the migrations that the database has; none where no migration was ever run."""
    # The catalogue is read first: not every server has a separate error code for a table that does not exist.
    rows = yield sql.statement(sql.has_table, "django_migrations", returns=".")
    if not rows[0][0]:
        return []
    text = "SELECT name FROM django_migrations WHERE app = ? ORDER BY name"
    rows = yield sql.statement(text, "steady_queue", returns=".")
    return [str(row[0]) for row in rows]


class SchemaWindow(NamedTuple):
    """The version of the tables in a database, and the oldest version whose code can work with them."""

    version: int
    compatible_with: int


@operation(transaction=False)
def find_schema_window(sql: Dialect) -> Flow[SchemaWindow | None]:
    """What the newest migration of the database has declared; None where none has declared anything."""
    rows = yield sql.statement(sql.has_table, "steady_queue_schemaversion", returns=".")
    if not rows[0][0]:
        return None
    text = "SELECT version, compatible_with FROM steady_queue_schemaversion WHERE id = 1"
    rows = yield sql.statement(text, returns="..")
    return SchemaWindow(int(rows[0][0]), int(rows[0][1])) if rows else None


def describe_schema_problem(
    alias: str, found: Collection[str], known: Collection[str], window: SchemaWindow | None = None
) -> str | None:
    """The error message if this package cannot work with the migrations found in the database; or None.

    Newer migrations are accepted if they have declared that code of this version can work with their tables. So
    processes can start between `migrate` and the deployment of the new code, and after a rollback of the code.
    """
    if missing := sorted(set(known) - set(found)):
        return (
            f"the database {alias!r} lacks migrations of steady_queue: {', '.join(missing)}; "
            f"run: python manage.py migrate steady_queue{database_option(alias)}"
        )
    unknown = sorted(set(found) - set(known))
    # A window of this version was declared by a migration that is known: the others have declared nothing.
    if unknown and (window is None or not window.compatible_with <= SCHEMA_VERSION < window.version):
        return (
            f"the database {alias!r} is newer than this version of steady_queue (it has {', '.join(unknown)}); "
            f"update the package: pip install --upgrade {NAME}"
        )
    return None
