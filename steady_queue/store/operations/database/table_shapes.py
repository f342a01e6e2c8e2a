"""The shapes of the tables: whether the database has the tables and columns that this version uses.

The names of migrations do not show that. Another implementation with the import name `steady_queue` has a migration
`0001_initial` and tables of the same names as well, and development versions changed `0001_initial` itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from steady_queue.distribution import NAME, OTHER_NAME
from steady_queue.store.names import database_option
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

#: The names of the columns of each table.
Shapes = Mapping[str, Set[str]]

JOBS = "steady_queue_job"
#: Columns of the table of jobs that only the other implementation has.
FOREIGN_COLUMNS = frozenset({"class_name", "django_task_id"})
#: Missing columns that a message names.
MAX_COLUMNS_SHOWN = 5


@operation(transaction=False)
def find_shapes(sql: Dialect) -> Flow[Shapes]:
    """The tables whose names begin with `steady_queue_`, and their columns."""
    rows = yield sql.statement(sql.table_columns, returns="..")
    shapes: dict[str, set[str]] = {}
    for table, column in rows:
        shapes.setdefault(str(table), set()).add(str(column))
    return shapes


def describe_foreign_tables(alias: str, found: Shapes) -> str | None:
    """The error message for tables of the other implementation; None where there are none."""
    if not found.get(JOBS, set()) >= FOREIGN_COLUMNS:
        return None
    return (
        f"the tables of steady_queue in the database {alias!r} belong to another implementation, the distribution "
        f"{OTHER_NAME}: {NAME} does not read or change them; to keep that one, run: pip uninstall -y {NAME}, then: "
        f"pip install {OTHER_NAME}. To change to {NAME}, either set steady_queue.database to a database without these "
        f"tables, or let the workers of {OTHER_NAME} finish all tasks, delete its tables while it is installed "
        f"(python manage.py migrate steady_queue zero), then install {NAME} and run: python manage.py migrate"
    )


def describe_missing_columns(alias: str, found: Shapes, expected: Shapes) -> str | None:
    """The error message for tables and columns that the database does not have; None where it has all."""
    tables = sorted(expected.keys() - found.keys())
    common = expected.keys() & found.keys()
    missing = tables + sorted(f"{table}.{name}" for table in common for name in expected[table] - found[table])
    if not missing:
        return None
    shown = ", ".join(missing[:MAX_COLUMNS_SHOWN])
    if len(missing) > MAX_COLUMNS_SHOWN:
        shown += f" and {len(missing) - MAX_COLUMNS_SHOWN} more"
    option = database_option(alias)
    return (
        f"the database {alias!r} lacks tables or columns of steady_queue although its migrations are applied: {shown}; "
        "an earlier development version created its tables. To delete them with all tasks and to create them again, "
        f"run: python manage.py migrate steady_queue zero{option}, then: python manage.py migrate steady_queue{option}"
    )
