"""The schema: which migrations of this package a database has, and whether they are those that the package knows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Collection

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


def applied(sql: Dialect) -> Operation[list[str]]:
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


def unfit(alias: str, found: Collection[str], known: Collection[str]) -> str | None:
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
