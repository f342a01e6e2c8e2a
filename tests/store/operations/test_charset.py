"""Character sets: with any default of the database, the queue's texts are utf8mb4 and its names compared by bytes."""

from __future__ import annotations

import json
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.core.checks import Warning
from django.core.management import call_command
from django.db import connections

from steady_queue.checks.installation import check_installation
from steady_queue.checks.preflight import examine
from steady_queue.checks.project import check_schema
from steady_queue.models.fields import NameField
from steady_queue.store.operations.database.charset import (
    NAME_COLUMNS,
    TextColumn,
    bytewise_collation,
    check_columns,
    find_text_column_problem,
)
from steady_queue.store.outcome import ErrorReport, Failed, Finished
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import query
from tests.support.servers import MariaDB
from tests.support.store.jobs import job
from tests.support.store.statements import statements
from tests.support.store.stores import SyncStore, async_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from anyio.from_thread import BlockingPortal
    from django.core.checks import CheckMessage

    from tests.support.servers import Postgres
    from tests.support.store.stores import Store

BYTEWISE = bytewise_collation(is_mariadb=True)
WORDS = "🐎 漢字 ünïcödé"
ON_MARIADB = pytest.mark.only_on("mariadb")


@contextmanager
def database_in(charset: str, server: Postgres | MariaDB, **options: Any) -> Iterator[str]:
    """The alias of an empty database with this default, dropped at the end."""
    assert isinstance(server, MariaDB)
    server.create_database("narrow", charset)
    try:
        with (
            extra_database("mariadb_narrow", twin_settings("mariadb", NAME="narrow", **options)) as alias,
            pointed_at(alias),
        ):
            yield alias
    finally:
        server.drop_database("narrow")


@pytest.fixture(params=["latin1", "utf8mb3", "utf8mb4"])
def narrow(request: pytest.FixtureRequest, database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[str]:
    with database_in(request.param, servers[database]) as alias:
        yield alias


@pytest.fixture
def latin1(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[str]:
    """The alias of a database as a plain CREATE DATABASE has made it for years, migrated."""
    with database_in("latin1", servers[database]) as alias:
        call_command("migrate", "steady_queue", database=alias, verbosity=0)
        yield alias


def collations(alias: str) -> dict[tuple[str, str], str]:
    rows = query(
        alias,
        "SELECT table_name, column_name, collation_name FROM information_schema.columns"
        " WHERE table_schema = database() AND table_name LIKE 'steady%%' AND collation_name IS NOT NULL",
    )
    return {(table, column): collation for table, column, collation in rows}


def name_columns() -> set[tuple[str, str]]:
    models = apps.get_app_config("steady_queue").get_models()
    return {
        (model._meta.db_table, str(field.column))
        for model in models
        for field in model._meta.local_fields
        if isinstance(field, NameField)
    }


# -- migrations -------------------------------------------------------------------------------------------------------


@ON_MARIADB
def test_tables_are_utf8mb4_with_any_default_of_the_database(narrow: str) -> None:
    call_command("migrate", "steady_queue", database=narrow, verbosity=0)
    found = collations(narrow)
    assert {collation.partition("_")[0] for collation in found.values()} == {"utf8mb4"}
    assert {found[column] for column in name_columns()} == {BYTEWISE}


@ON_MARIADB
def test_tables_made_before_are_converted_and_keep_their_rows(narrow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    initial = import_module("steady_queue.migrations.0001_initial")
    monkeypatch.setattr(initial.Migration, "operations", initial.Migration.operations[:-1])
    call_command("migrate", "steady_queue", database=narrow, verbosity=0)
    before = collations(narrow)
    insert = (
        "INSERT INTO steady_queue_recurringtask (task_key, task_path, schedule, arguments, description, created_at,"
        " updated_at, counts_from) VALUES (%s, 'a.b', '* * * * *', '[]', %s, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), NULL)"
    )
    for key in ("Key", "key", "key ", WORDS):
        query(narrow, insert, key, "déjà vu")
    with connections[narrow].schema_editor() as editor:
        initial.convert_charset(apps, editor)
    after = collations(narrow)
    assert after.keys() == before.keys()
    assert {collation.partition("_")[0] for collation in after.values()} == {"utf8mb4"}
    assert {after[column] for column in name_columns()} == {BYTEWISE}
    rows = query(
        narrow, "SELECT task_key, description, catch_up, enabled FROM steady_queue_recurringtask ORDER BY task_key"
    )
    assert rows == [(key, "déjà vu", "none", 1) for key in ("Key", "key", "key ", WORDS)]


@ON_MARIADB
def test_tables_that_are_utf8mb4_already_are_left_alone(database: str) -> None:
    """Texts other than names keep their collation: to convert them would copy whole tables for nothing."""
    store = SyncStore(database)
    assert "utf8mb4_general_ci" in collations(database).values()
    unfit, said = statements(store, find_text_column_problem(store.sql))
    assert unfit is None
    assert all(statement.text.startswith("SELECT") for statement in said)


@pytest.mark.only_on("postgres", "sqlite")
def test_other_databases_are_not_even_asked(database: str) -> None:
    store = SyncStore(database)
    assert statements(store, find_text_column_problem(store.sql)) == (None, [])


# -- what is kept -----------------------------------------------------------------------------------------------------


@ON_MARIADB
@pytest.mark.parametrize("way", ["sync", "async"])
def test_texts_of_every_kind_are_kept(latin1: str, portal: BlockingPortal, way: str) -> None:
    if way == "sync":
        keep_everything(SyncStore(latin1))
    else:
        with async_store(latin1, portal) as store:
            keep_everything(store)


def keep_everything(store: Store) -> None:
    one = job(queue_name=WORDS, arguments=json.dumps([1, [WORDS], {}], ensure_ascii=False))
    (claim,) = store.claimed(one, process_id=store.worker(WORDS))
    assert (claim.queue_name, claim.arguments) == (one.queue_name, one.arguments)
    store.settle(Failed(claim, ErrorReport("shop.Überlauf", WORDS, WORDS)), process_name=WORDS)
    failure = store.ask("SELECT exception_class, message FROM steady_queue_failedexecution", returns="..")
    assert [tuple(row) for row in failure] == [("shop.Überlauf", WORDS)]
    store.retry(one)
    (claim,) = store.claim(store.worker("second"))
    store.settle(Finished(claim, json.dumps(WORDS, ensure_ascii=False)), process_name=WORDS)
    (record,) = store.find(one)
    assert record.return_value == json.dumps(WORDS, ensure_ascii=False)
    assert record.worker_ids == f"{WORDS}\n{WORDS}"
    assert record.errors is not None
    assert json.loads(record.errors)["message"] == WORDS


@ON_MARIADB
@pytest.mark.parametrize(
    "options",
    [{"charset": "latin1"}, {"init_command": "SET NAMES latin1"}, {"charset": "utf8", "use_unicode": True}],
    ids=str,
)
def test_our_own_connections_are_utf8mb4_with_any_charset_of_django(
    database: str, portal: BlockingPortal, options: dict[str, Any]
) -> None:
    with (
        extra_database("mariadb_other_names", twin_settings(database, options=options)) as alias,
        async_store(alias, portal) as store,
    ):
        (claim,) = store.claimed(job(queue_name=WORDS))
        store.settle(Failed(claim, ErrorReport("shop.Error", WORDS, WORDS)), process_name=WORDS)
    assert query(database, "SELECT message FROM steady_queue_failedexecution") == [(WORDS,)]
    assert query(database, "SELECT queue_name, worker_ids FROM steady_queue_job") == [(WORDS, WORDS)]


@ON_MARIADB
def test_an_option_file_does_not_narrow_our_connections(database: str, portal: BlockingPortal, tmp_path: Path) -> None:
    file = tmp_path / "my.cnf"
    settings = connections.databases[database]
    file.write_text(
        f"[client]\ndefault-character-set=latin1\nuser={settings['USER']}\npassword={settings['PASSWORD']}\n"
        f"host={settings['HOST']}\nport={settings['PORT']}\ndatabase={settings['NAME']}\n"
    )
    options = {"read_default_file": str(file)}
    with (
        extra_database("mariadb_option_file", twin_settings(database, options=options)) as alias,
        async_store(alias, portal) as store,
    ):
        store.enqueue(job(queue_name=WORDS))
    assert query(database, "SELECT queue_name FROM steady_queue_job") == [(WORDS,)]


# -- checks -----------------------------------------------------------------------------------------------------------


def with_id(number: str, messages: list[CheckMessage]) -> list[CheckMessage]:
    return [message for message in messages if message.id == f"steady_queue.{number}"]


@ON_MARIADB
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("CONVERT TO CHARACTER SET latin1", "steady_queue_failedexecution.message (latin1_swedish_ci)"),
        ("MODIFY message longtext CHARACTER SET utf8mb3", "steady_queue_failedexecution.message (utf8mb3_general_ci)"),
    ],
)
def test_a_column_that_is_not_utf8mb4_is_named_with_the_statement_that_repairs_it(
    latin1: str, change: str, named: str
) -> None:
    assert check_schema(databases=[latin1]) == []
    query(latin1, f"ALTER TABLE steady_queue_failedexecution {change}")
    (message,) = check_schema(databases=[latin1])
    assert (message.id, type(message)) == ("steady_queue.W013", Warning)
    assert message.msg.startswith(f"The database {latin1!r} has columns that are not utf8mb4")
    assert named in message.msg
    mending = f"ALTER TABLE steady_queue_failedexecution CONVERT TO CHARACTER SET utf8mb4 COLLATE {BYTEWISE}"
    assert message.hint == f"Run: {mending}"
    found = examine()
    assert [text for text in found.warnings if named in text and mending in text]
    err = StringIO()
    call_command("check", databases=[latin1], stderr=err)
    assert err.getvalue().count("steady_queue.W013") == 1
    query(latin1, mending)
    assert check_schema(databases=[latin1]) == []
    assert not [text for text in examine().warnings if "utf8mb4" in text]


@ON_MARIADB
def test_names_that_a_conversion_made_equal_to_others_are_reported_and_repaired(latin1: str) -> None:
    """As after the statement that is found everywhere, which gives every column the default collation."""
    query(latin1, "ALTER TABLE steady_queue_readyexecution CONVERT TO CHARACTER SET utf8mb4")
    (message,) = with_id("W013", check_schema(databases=[latin1]))
    assert "steady_queue_readyexecution.queue_name (utf8mb4_general_ci)" in message.msg
    query(latin1, str(message.hint).removeprefix("Run: "))
    assert check_schema(databases=[latin1]) == []
    assert collations(latin1)["steady_queue_readyexecution", "queue_name"] == BYTEWISE


@ON_MARIADB
@pytest.mark.parametrize("charset", ["latin1", "utf8", "utf8mb3"])
def test_a_connection_that_is_not_utf8mb4_is_named(database: str, charset: str) -> None:
    assert with_id("W012", check_installation()) == []
    settings = twin_settings(database, options={"charset": charset})
    with extra_database("mariadb_connected", settings) as alias, pointed_at(alias):
        (message,) = with_id("W012", check_installation())
        assert [text for text in examine().warnings if f"the character set {charset!r}" in text]
    assert isinstance(message, Warning)
    assert f"Django connects to the database {alias!r} with the character set {charset!r}" in message.msg
    assert f"DATABASES[{alias!r}]['OPTIONS']['charset'] = 'utf8mb4'" in str(message.hint)


@ON_MARIADB
def test_without_a_charset_in_the_settings_nothing_is_reported(database: str) -> None:
    settings = {**twin_settings(database), "OPTIONS": {}}
    with extra_database("mariadb_connected", settings) as alias, pointed_at(alias):
        assert with_id("W012", check_installation()) == []


# -- judgement --------------------------------------------------------------------------------------------------------


def test_the_names_are_those_of_the_models() -> None:
    assert {column for _, column in name_columns()} == NAME_COLUMNS
    models = apps.get_app_config("steady_queue").get_models()
    others = {
        field.column for model in models for field in model._meta.local_fields if not isinstance(field, NameField)
    }
    assert not others & NAME_COLUMNS


def test_where_ids_are_texts_all_tables_get_one_collation() -> None:
    """As on MySQL: a join of two collations could not use an index."""
    own = bytewise_collation(is_mariadb=False)
    columns = [
        TextColumn("steady_queue_job", "id", "latin1", "latin1_swedish_ci"),
        TextColumn("steady_queue_job", "queue_name", "utf8mb4", own),
        TextColumn("steady_queue_failedexecution", "job_id", "utf8mb4", "utf8mb4_0900_ai_ci"),
        TextColumn("steady_queue_pause", "queue_name", "utf8mb4", own),
    ]
    unfit = check_columns(columns, own)
    assert unfit is not None
    assert unfit.columns == [columns[0]]
    assert unfit.statements == [
        f"ALTER TABLE steady_queue_{table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin"
        for table in ("failedexecution", "job")
    ]
    assert check_columns(columns[1:], own) is None
