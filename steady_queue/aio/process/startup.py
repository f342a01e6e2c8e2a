"""Startup: what a process does before it works, for as long as the database takes, unless a shutdown is requested.

It checks that this version of the package can work with the database before it writes anything to it.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from anyio import create_task_group
from django.apps import apps
from django.conf import settings

from steady_queue.errors import ConfigurationError, StoreBug, StoreError
from steady_queue.store.operations.database.server import (
    describe_schema_problem,
    find_applied_migrations,
    find_schema_window,
    find_version_problem,
)
from steady_queue.store.operations.database.table_shapes import (
    describe_foreign_tables,
    describe_missing_columns,
    find_shapes,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Collection

    from steady_queue.aio.outage import Outage
    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.operations.database.server import SchemaWindow
    from steady_queue.store.operations.database.table_shapes import Shapes


async def find_start_problem(driver: AsyncDriver, alias: str) -> str | None:
    """Why no process may work on this database (the server is too old, the schema does not fit), or None."""
    if problem := await driver.run(find_version_problem(driver.sql)):
        return problem
    try:
        shapes = await driver.run(find_shapes(driver.sql))
        found = await driver.run(find_applied_migrations(driver.sql))
        window = await driver.run(find_schema_window(driver.sql))
    except StoreBug as error:
        return f"the schema of the database {alias!r} cannot be read: {error}"
    return describe_schema(alias, shapes, found, window)


def describe_schema(
    alias: str, shapes: Shapes, migrations: Collection[str], window: SchemaWindow | None = None
) -> str | None:
    """The error message for a database with these tables and migrations of this app; None if they fit.

    `window` is what the tables declare about older code.
    """
    # First, because the migrations of the other implementation have the same names or are unknown.
    if problem := describe_foreign_tables(alias, shapes):
        return problem
    known = known_migrations()
    if known is None:
        return None
    # A newer schema must have all that this code uses.
    return describe_schema_problem(alias, migrations, known, window) or describe_missing_columns(
        alias, shapes, known_shapes()
    )


def known_migrations() -> list[str] | None:
    """The names of this package's migrations; None if the project creates the tables without migrations."""
    home: str | None = "steady_queue.migrations"
    if "steady_queue" in settings.MIGRATION_MODULES:
        home = settings.MIGRATION_MODULES["steady_queue"]
    if home is None:
        return None
    # Read from their directory, because importing them would import the models.
    modules = iter_modules(import_module(home).__path__)
    return sorted(module.name for module in modules if not module.ispkg and module.name[0] not in "_~")


def known_shapes() -> Shapes:
    """The tables of this package's models, with their columns."""
    # From the registry, which has loaded them: the runtime does not import the models.
    models = apps.get_app_config("steady_queue").get_models()
    return {
        model._meta.db_table: {str(field.column) for field in model._meta.local_concrete_fields}
        for model in models
        if not model._meta.proxy  # the pages of the dashboard
    }


async def run_unless_stopped(stopped: asyncio.Event, step: Callable[[], Awaitable[None]]) -> None:
    """Run a step of the startup; it is cancelled when `stopped` is set."""
    async with create_task_group() as starting:

        async def stop() -> None:
            await stopped.wait()
            starting.cancel_scope.cancel()

        starting.start_soon(stop)
        await step()
        starting.cancel_scope.cancel()


async def check_database(driver: AsyncDriver, alias: str, outage: Outage) -> ConfigurationError | None:
    """Why no process may work on this database, or None; waits until the database answers."""
    while True:
        try:
            problem = await find_start_problem(driver, alias)
        except StoreError as error:
            await outage.wait("start", error)
            continue
        outage.succeeded("start")
        return None if problem is None else ConfigurationError(problem)
