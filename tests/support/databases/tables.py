"""The queue's tables, seen from outside: counted, filled and emptied by tests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import connections

from steady_queue.store.operations.database.server import SCHEMA_VERSION

if TYPE_CHECKING:
    from uuid import UUID

VERSIONS = "steady_queue_schemaversion"
EXECUTIONS = ("readyexecution", "scheduledexecution", "blockedexecution", "claimedexecution", "failedexecution")


def query(alias: str, text: str, *params: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement on Django's connection."""
    with connections[alias].cursor() as cursor:
        cursor.execute(text, params)
        return list(cursor.fetchall()) if cursor.description else []


def count(alias: str, table: str) -> int:
    """How many rows a table of the queue has: `count("sqlite", "job")`."""
    return int(query(alias, f"SELECT count(*) FROM steady_queue_{table}")[0][0])


def counts(alias: str) -> dict[str, int]:
    """The rows of each execution table that has any."""
    found = {table: count(alias, table) for table in EXECUTIONS}
    return {table.removesuffix("execution"): number for table, number in found.items() if number}


def empty_tables(alias: str) -> None:
    """Delete everything but what the migrations have inserted."""
    connection = connections[alias]
    connection.close()
    tables = _tables_to_empty()
    # Most tables are empty after most tests: one statement finds those that are not.
    found = query(alias, f"SELECT {', '.join(f'EXISTS (SELECT 1 FROM {table})' for table in (VERSIONS, *tables))}")[0]
    for table, has_rows in zip(tables, found[1:], strict=True):
        if has_rows:
            query(alias, f"DELETE FROM {table}")
    if not found[0]:  # a TransactionTestCase of Django has emptied this table as well
        versions = apps.get_model("steady_queue", "SchemaVersion")._default_manager.using(alias)
        versions.create(id=1, version=SCHEMA_VERSION, compatible_with=SCHEMA_VERSION)


@cache
def _tables_to_empty() -> list[str]:
    models = [model for app in ("steady_queue", "shop") for model in apps.get_app_config(app).get_models()]
    kept = (VERSIONS, "steady_queue_lockbucket")
    return sorted({model._meta.db_table for model in models}.difference(kept))


def row(alias: str, table: str, job_id: UUID | str, column: str = "job_id") -> dict[str, Any] | None:
    """One row as a dictionary, or None."""
    model = apps.get_model("steady_queue", table)
    found: dict[str, Any] | None = model._base_manager.using(alias).filter(**{column: job_id}).values().first()
    return found
