"""Explain the error of a database in which `migrate` has not created the tables of the queue.

PostgreSQL and MySQL have an error code for a missing table, which is all that can be known inside the caller's
transaction: PostgreSQL refuses every further statement there. SQLite has only a generic code, so the catalogue is read,
on the same connection; an error of a statement does not end a transaction of SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.errors import StoreError, StoreNotMigrated
from steady_queue.store.drivers.error_codes import is_table_missing
from steady_queue.store.operations.database_server import has_tables

if TYPE_CHECKING:
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver


def find_missing_tables(driver: DjangoDriver, error: StoreError) -> StoreNotMigrated | None:
    """Return the error to raise instead if the tables are missing, which names the command to run; or None."""
    is_missing = is_table_missing(error)
    if is_missing is None:
        try:
            is_missing = not driver.run(has_tables(driver.sql))
        except StoreError:  # the transaction cannot be used any more
            return None
    return _not_migrated(driver.alias, error) if is_missing else None


async def afind_missing_tables(alias: str, driver: AsyncDriver, error: StoreError) -> StoreNotMigrated | None:
    """The async form of `find_missing_tables`."""
    is_missing = is_table_missing(error)
    if is_missing is None:
        try:
            is_missing = not await driver.run(has_tables(driver.sql))
        except StoreError:
            return None
    return _not_migrated(alias, error) if is_missing else None


def _not_migrated(alias: str, error: StoreError) -> StoreNotMigrated:
    where = "" if alias == "default" else f" --database {alias}"
    text = f"the database {alias!r} has no tables of Steady Queue; run: python manage.py migrate{where}"
    return StoreNotMigrated(text, code=error.code)
