"""Startup: a process refuses a database with another schema version, and says what to do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from django.test import override_settings

from steady_queue.aio import running
from steady_queue.aio.embedding import prepare
from steady_queue.aio.process.startup import find_start_problem, known_migrations
from steady_queue.db.aliases import open_async
from steady_queue.errors import ConfigurationError
from steady_queue.store.operations.database.server import SCHEMA_VERSION
from tests.shop.tasks import add
from tests.support.databases.foreign_tables import foreign_jobs, foreign_tables
from tests.support.databases.tables import count, query
from tests.support.databases.unmigrated import declared_window, marked_as_migrated
from tests.support.processes.scripts import run_script
from tests.support.runtime import in_thread, values, worker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture
def newer(database: str) -> Iterator[str]:
    """A database that a later version of the package has migrated."""
    with marked_as_migrated(database, "9999_later"):
        yield database


@pytest.fixture
def compatible(newer: str) -> Iterator[str]:
    """A newer database that declares that the code of this version can work with it."""
    with declared_window(newer, SCHEMA_VERSION + 1, compatible_with=SCHEMA_VERSION):
        yield newer


@pytest.fixture
def incompatible(newer: str) -> Iterator[str]:
    """A newer database that needs newer code."""
    with declared_window(newer, SCHEMA_VERSION + 2, compatible_with=SCHEMA_VERSION + 1):
        yield newer


@pytest.fixture
def foreign(unmigrated: str) -> Iterator[str]:
    """A database with the tables of another implementation."""
    with foreign_tables(unmigrated):
        yield unmigrated


@pytest.fixture
def older(unmigrated: str) -> Iterator[str]:
    """A database in which another version of the first migration was applied."""
    query(unmigrated, "CREATE TABLE steady_queue_job (id integer, queue_name integer)")
    with marked_as_migrated(unmigrated, *(known_migrations() or ())):
        yield unmigrated


async def refused(alias: str) -> str:
    """Why no process may work on the database, as a supervisor asks for it."""
    driver = open_async(alias, size=1)
    try:
        return str(await find_start_problem(driver, alias))
    finally:
        await driver.close()


async def test_a_process_refuses_a_database_without_a_schema(unmigrated: str) -> None:
    text = rf"'{unmigrated}' lacks migrations of steady_queue: 0001_initial, .*; .* --database={unmigrated}"
    with pytest.raises(ConfigurationError, match=text):
        async with running(worker(), alias=unmigrated):
            raise AssertionError("it works")


async def test_a_process_refuses_a_database_that_is_newer_and_leaves_no_trace(newer: str) -> None:
    with pytest.raises(ConfigurationError, match=r"newer than this version .* \(it has 9999_later\)"):
        async with running(worker()):
            raise AssertionError("it works")
    assert await in_thread(count, newer, "process") == 0


@pytest.mark.usually_on("postgres", "mariadb", "sqlite")
async def test_a_process_works_on_a_newer_database_that_declares_itself_compatible(compatible: str) -> None:
    async with running(worker()):
        assert await values(await add.aenqueue(1)) == [1]


async def test_a_process_refuses_a_newer_database_that_needs_newer_code(incompatible: str) -> None:
    assert "newer than this version" in await refused(incompatible)


async def test_a_prepared_process_that_is_run_ends_with_its_refusal(newer: str) -> None:
    process = prepare(worker())
    await asyncio.wait_for(process.run(), 20)
    assert "newer than this version" in str(process.start_problem)


async def test_a_supervisor_gets_the_same_refusals(newer: str, unmigrated: str) -> None:
    assert "newer than this version" in await refused(newer)
    assert "lacks migrations" in await refused(unmigrated)


async def test_a_process_refuses_the_tables_of_another_implementation_and_leaves_them(foreign: str) -> None:
    with pytest.raises(ConfigurationError, match=r"belong to another implementation, .* steady-queue: .*; to keep"):
        async with running(worker(), alias=foreign):
            raise AssertionError("it works")
    assert await in_thread(foreign_jobs, foreign) == [(1, "shop.tasks.add")]
    assert await in_thread(count, foreign, "process") == 0


async def test_a_process_refuses_tables_of_an_older_first_migration(older: str) -> None:
    assert "lacks tables or columns of steady_queue although" in await refused(older)


async def test_a_table_of_migrations_that_cannot_be_read_is_a_refusal_and_not_an_outage(unmigrated: str) -> None:
    await in_thread(query, unmigrated, "CREATE TABLE django_migrations (nothing_of_use integer)")
    assert f"the schema of the database '{unmigrated}' cannot be read" in await refused(unmigrated)


async def test_a_project_that_creates_its_tables_without_migrations_needs_none(newer: str) -> None:
    with override_settings(MIGRATION_MODULES={"steady_queue": None}):
        async with running(worker()):
            assert await values(await add.aenqueue(1)) == [1]


async def test_the_command_ends_with_1_instead_of_retrying_forever(newer: str) -> None:
    text = """
from django.core.management import execute_from_command_line
execute_from_command_line(["manage.py", "steady_queue", "--async"])
"""
    await in_thread(lambda: run_script(text, alias=newer, code=1))
