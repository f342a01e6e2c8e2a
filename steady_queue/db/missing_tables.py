"""Explain the error of a database in which `migrate` has not created the tables of the queue, or others have.

PostgreSQL and MySQL have error codes for a missing table or column, which are all that can be known inside the caller's
transaction: PostgreSQL refuses every further statement there. SQLite has only a generic code, so the catalogue is read,
on the same connection; an error of a statement does not end a transaction of SQLite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.errors import StoreError, StoreNotMigrated
from steady_queue.store.drivers.error_codes import is_column_missing, is_table_missing
from steady_queue.store.names import database_option
from steady_queue.store.operations.database.table_shapes import JOBS, describe_foreign_tables, find_shapes

if TYPE_CHECKING:
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.database.table_shapes import Shapes


def explain_store_error(driver: DjangoDriver, error: StoreError) -> StoreNotMigrated | None:
    """Return the error to raise instead if tables or columns are missing, which names the command to run; or None."""
    shapes: Shapes = {}
    if is_table_missing(error) is None:
        try:
            shapes = driver.run(find_shapes(driver.sql))
        except StoreError:  # the transaction cannot be used any more
            return None
    return _explain(driver.alias, error, shapes)


async def aexplain_store_error(alias: str, driver: AsyncDriver, error: StoreError) -> StoreNotMigrated | None:
    """The async form of `explain_store_error`."""
    shapes: Shapes = {}
    if is_table_missing(error) is None:
        try:
            shapes = await driver.run(find_shapes(driver.sql))
        except StoreError:
            return None
    return _explain(alias, error, shapes)


def _explain(alias: str, error: StoreError, shapes: Shapes) -> StoreNotMigrated | None:
    """Explain the error; `shapes` are the tables of a database whose error codes leave open what is missing."""
    is_missing = is_table_missing(error)
    if foreign := describe_foreign_tables(alias, shapes):
        text = foreign
    elif is_column_missing(error):
        text = (
            f"the tables of Steady Queue in the database {alias!r} lack a column that this version uses; "
            f"run: python manage.py check --database {alias}, which names the cause"
        )
    elif is_missing or (is_missing is None and JOBS not in shapes):
        command = f"python manage.py migrate{database_option(alias)}"
        text = f"the database {alias!r} has no tables of Steady Queue; run: {command}"
    else:
        return None
    return StoreNotMigrated(text, code=error.code)
