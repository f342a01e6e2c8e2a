"""The queue's tables, seen from outside: counted, filled and emptied by tests."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import connections

from steady_queue.aio.process.startup import known_migrations
from steady_queue.store.names import LOCK_ID_COUNT

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
    if not found[0]:
        restore_migrated_rows(alias)


def restore_migrated_rows(alias: str) -> None:
    """Insert what the migrations have inserted: a TransactionTestCase of Django empties all tables at its end."""
    from steady_queue.models import LockBucket, SchemaVersion

    newest = import_module(f"steady_queue.migrations.{(known_migrations() or [])[-1]}")
    window = {"version": newest.VERSION, "compatible_with": newest.COMPATIBLE_WITH}
    SchemaVersion.objects.using(alias).get_or_create(id=1, defaults=window)
    rows = [LockBucket(id=id_) for id_ in range(LOCK_ID_COUNT)]
    LockBucket.objects.using(alias).bulk_create(rows, ignore_conflicts=True)


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
