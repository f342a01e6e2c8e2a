"""The versions of the server and of the schema: read, and compared with what the package supports."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from django.db import connections, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.test import override_settings

from steady_queue.aio.process.startup import known_migrations
from steady_queue.errors import StoreUnavailable
from steady_queue.store.operations.database.server import (
    SCHEMA_VERSION,
    SchemaWindow,
    check_version,
    describe_schema_problem,
    find_applied_migrations,
    find_schema_window,
    find_version_problem,
)
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.unmigrated import marked_as_migrated
from tests.support.servers.host import free_port
from tests.support.store.stores import SyncStore, async_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.from_thread import BlockingPortal

    from tests.support.store.stores import Store


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("PostgreSQL", "14.0"),
        ("PostgreSQL", "15.4 (Debian 15.4-1.pgdg120+1)"),
        ("PostgreSQL", "18beta2"),
        ("MySQL or MariaDB", "8.0.36-0ubuntu0.22.04.1"),
        ("MySQL or MariaDB", "10.11.6-MariaDB"),
        ("MySQL or MariaDB", "5.5.5-10.11.14-MariaDB-0+deb12u2"),
        ("SQLite", "3.40.1"),
        ("SQLite", "of unknown making"),
    ],
)
def test_a_version_that_will_do(name: str, version: str) -> None:
    assert check_version(name, version) is None


@pytest.mark.parametrize(
    ("name", "version", "said"),
    [
        ("PostgreSQL", "13.12", "PostgreSQL 13.12 is too old: 14 or newer is needed"),
        ("MySQL or MariaDB", "5.7.44-log", "MySQL 5.7.44 is too old: 8.0.1 or newer is needed"),
        ("MySQL or MariaDB", "10.11.5-MariaDB", "MariaDB 10.11.5 is too old: 10.11.6 or newer is needed"),
        ("MySQL or MariaDB", "5.5.5-10.6.1-MariaDB", "MariaDB 10.6.1 is too old: 10.11.6 or newer is needed"),
        ("SQLite", "3.34.0", "SQLite 3.34.0 is too old: 3.35 or newer is needed"),
    ],
)
def test_a_version_that_is_too_old(name: str, version: str, said: str) -> None:
    assert check_version(name, version) == said


def test_the_servers_of_these_tests_will_do(store: Store) -> None:
    assert store.run(find_version_problem(store.sql)) is None


@pytest.fixture(params=["sync", "async"])
def empty(request: pytest.FixtureRequest, unmigrated: str, portal: BlockingPortal) -> Iterator[Store]:
    """A store in a database without any table."""
    if request.param == "sync":
        yield SyncStore(unmigrated)
    else:
        with async_store(unmigrated, portal) as store:
            yield store


def test_a_migrated_database_has_the_migrations_of_the_package(store: Store) -> None:
    known = known_migrations()
    assert known
    assert known[0] == "0001_initial"
    found = store.run(find_applied_migrations(store.sql))
    assert found == known
    assert describe_schema_problem(store.alias, found, known) is None


def test_a_migrated_database_declares_the_version_of_the_package(store: Store) -> None:
    newest = import_module(f"steady_queue.migrations.{(known_migrations() or [])[-1]}")
    assert store.run(find_schema_window(store.sql)) == SchemaWindow(newest.VERSION, newest.COMPATIBLE_WITH)
    assert newest.VERSION == SCHEMA_VERSION


def test_a_database_without_the_row_or_the_table_of_its_version_declares_none(store: Store, empty: Store) -> None:
    assert empty.run(find_schema_window(empty.sql)) is None
    with connections[store.alias].cursor() as cursor, transaction.atomic(using=store.alias):
        cursor.execute("DELETE FROM steady_queue_schemaversion")
        driver = SyncStore(store.alias)
        assert driver.run(find_schema_window(driver.sql)) is None
        transaction.set_rollback(True, using=store.alias)


WINDOWS = {
    "as old as this code": (SchemaWindow(SCHEMA_VERSION + 3, SCHEMA_VERSION), True),
    "older than this code": (SchemaWindow(SCHEMA_VERSION + 3, SCHEMA_VERSION - 1), True),
    "newer than this code": (SchemaWindow(SCHEMA_VERSION + 3, SCHEMA_VERSION + 1), False),
    "of a migration that this code has": (SchemaWindow(SCHEMA_VERSION, SCHEMA_VERSION), False),
    "missing": (None, False),
}


@pytest.mark.parametrize(("window", "is_accepted"), WINDOWS.values(), ids=WINDOWS)
def test_newer_migrations_are_accepted_if_they_declare_that(window: SchemaWindow | None, is_accepted: bool) -> None:
    problem = describe_schema_problem("default", ["0001_a", "0009_x"], ["0001_a"], window)
    assert (problem is None) is is_accepted
    # What this code needs must be there in any case.
    assert "lacks migrations" in str(describe_schema_problem("default", ["0009_x"], ["0001_a"], window))


def test_a_database_without_the_table_of_migrations_has_none(empty: Store) -> None:
    assert empty.run(find_applied_migrations(empty.sql)) == []


def test_a_database_has_the_migrations_of_this_package_only(empty: Store) -> None:
    with marked_as_migrated(empty.alias):
        assert empty.run(find_applied_migrations(empty.sql)) == []
        MigrationRecorder(connections[empty.alias]).record_applied("another", "0001_initial")
        assert empty.run(find_applied_migrations(empty.sql)) == []
    with marked_as_migrated(empty.alias, "0002_second", "0001_initial"):
        assert empty.run(find_applied_migrations(empty.sql)) == ["0001_initial", "0002_second"]


@pytest.mark.only_on("postgres", "mariadb")  # SQLite has no server that could be unavailable
def test_an_unavailable_server_is_not_mistaken_for_one_without_the_table(database: str, portal: BlockingPortal) -> None:
    settings = twin_settings(database, HOST="127.0.0.1", PORT=free_port())
    with extra_database(f"{database}_away", settings) as alias:
        with pytest.raises(StoreUnavailable):
            store = SyncStore(alias)
            store.run(find_applied_migrations(store.sql))
        with async_store(alias, portal) as other, pytest.raises(StoreUnavailable):
            other.run(find_applied_migrations(other.sql))


LACKS = "the database '{}' lacks migrations of steady_queue: {}; run: python manage.py migrate steady_queue{}"

NEWER = (
    "the database '{}' is newer than this version of steady_queue (it has {}); "
    "update the package: pip install --upgrade steady-queue-aio"
)


@pytest.mark.parametrize(
    ("alias", "found", "said"),
    [
        ("default", [], LACKS.format("default", "0001_a, 0002_b", "")),
        ("jobs", ["0001_a"], LACKS.format("jobs", "0002_b", " --database=jobs")),
        ("default", ["0001_a", "0002_b", "0009_x"], NEWER.format("default", "0009_x")),
        # Both at once: what is missing comes first.
        ("default", ["0001_a", "0009_x"], LACKS.format("default", "0002_b", "")),
        ("default", ["0002_b", "0001_a"], None),
    ],
)
def test_what_is_reported_about_a_database(alias: str, found: list[str], said: str | None) -> None:
    assert describe_schema_problem(alias, found, ["0001_a", "0002_b"]) == said


def test_the_known_migrations_are_those_of_the_project_where_it_has_its_own() -> None:
    with override_settings(MIGRATION_MODULES={"steady_queue": "django.contrib.contenttypes.migrations"}):
        assert known_migrations() == ["0001_initial", "0002_remove_content_type_name"]
    with override_settings(MIGRATION_MODULES={"steady_queue": None}):
        assert known_migrations() is None
