"""From DATABASES to the async drivers: they reach the same database, in the same way, as Django's own connection."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

import aiomysql
import asyncpg
import pytest
from django.db import connections

from steady_queue.db.aliases import open_async, parameters
from steady_queue.errors import ConfigurationError, EnqueueError
from tests.shop import tasks
from tests.support.databases.aliases import extra_database, pointed_at, twin_settings
from tests.support.databases.tables import count, query
from tests.support.enqueue import put_async, put_sync

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.enqueue import Put
    from tests.support.servers import MariaDB, Postgres

    Servers = dict[str, Any]

pytestmark = pytest.mark.contract

ON_POSTGRES = pytest.mark.parametrize("queue", ["postgres"], indirect=True)
ON_MARIADB = pytest.mark.parametrize("queue", ["mariadb"], indirect=True)

#: A certificate that signs itself, valid for a hundred years.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUE6CrExZDnPkx/Ijf6okoAcSoZXEwCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFdGVzdHMwIBcNMjYxMTE2MDQyMDE5WhgPMjEyNjEwMjMwNDIw
MTlaMBAxDjAMBgNVBAMMBXRlc3RzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
m4wlhwF9XGiazhUAY9Y3lRJgJwDgsF85JHe1jXsG86+q/3vjHU3mWesPSVyMRoAR
2gsidq3eNV7wAcbtIe+1oaNTMFEwHQYDVR0OBBYEFDY9VaHbrLNEmWySjuJOhudd
9v7YMB8GA1UdIwQYMBaAFDY9VaHbrLNEmWySjuJOhudd9v7YMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgcQuHxN4ZvJms2yBuSQXV6cHgFTm6wdA8
c4bTAH4ifzwCIQDn8pJ/uotpIDJlmVIh7LauplCY2ehl9Ki/i2qlAlwPVQ==
-----END CERTIFICATE-----
"""


def ask_postgres(alias: str, question: str) -> Any:
    """The answer that an asyncpg connection gets, and that Django's connection must get too."""

    async def ask() -> Any:
        connection = await asyncpg.connect(**parameters(alias).values)
        try:
            return await connection.fetchval(question)
        finally:
            await connection.close()

    answer = asyncio.run(ask())
    assert query(alias, question) == [(answer,)]
    return answer


def ask_mysql(alias: str, question: str) -> Any:
    """The same of aiomysql."""

    async def ask() -> Any:
        connection = await aiomysql.connect(**parameters(alias).values)
        async with connection.cursor() as cursor:
            await cursor.execute(question)
            (answer,) = await cursor.fetchone()
        await connection.ensure_closed()
        return answer

    answer = asyncio.run(ask())
    assert query(alias, question) == [(answer,)]
    return answer


def enqueues(alias: str) -> None:
    """A job goes in through both drivers."""
    with pointed_at(alias):
        before = count(alias, "job")
        tasks.add.enqueue(1)
        asyncio.run(tasks.charge.aenqueue("ada"))
        assert count(alias, "job") == before + 2


# -- PostgreSQL -------------------------------------------------------------------------------------------------------


@ON_POSTGRES
@pytest.mark.parametrize(
    ("options", "question", "answer"),
    [
        ({"application_name": "shop & co?"}, "SHOW application_name", "shop & co?"),
        ({"fallback_application_name": "shop"}, "SELECT 1", 1),
        ({"options": "-c work_mem=5MB -c search_path=public"}, "SHOW work_mem", "5MB"),
        ({"sslmode": "disable"}, "SELECT 1", 1),
        ({"sslmode": "prefer", "connect_timeout": 7}, "SELECT 1", 1),
        ({"target_session_attrs": "read-write"}, "SELECT 1", 1),
        ({"client_encoding": "UTF8", "prepare_threshold": 3}, "SELECT 1", 1),
    ],
    ids=str,
)
def test_postgres_options_mean_the_same_to_both_drivers(
    queue: str, options: dict[str, Any], question: str, answer: object
) -> None:
    with extra_database("postgres_optional", twin_settings(queue, options=options)) as alias:
        assert parameters(alias).unmapped == ()
        assert ask_postgres(alias, question) == answer
        enqueues(alias)


@ON_POSTGRES
def test_a_server_without_encryption_is_refused_where_encryption_is_required(queue: str) -> None:
    settings = twin_settings(queue, options={"sslmode": "require"})
    with extra_database("postgres_secure", settings) as alias, pointed_at(alias):
        for put in (tasks.add.enqueue, lambda number: asyncio.run(tasks.add.aenqueue(number))):
            with pytest.raises(EnqueueError, match="SSL") as caught:
                put(1)
            assert caught.value.stored == "no"
    assert count(queue, "job") == 0


@ON_POSTGRES
def test_the_time_to_connect_is_bounded(queue: str) -> None:
    with extra_database("postgres_bounded", twin_settings(queue, options={"connect_timeout": "3"})) as alias:
        assert parameters(alias).values["timeout"] == 3.0


@ON_POSTGRES
def test_a_role_is_assumed_by_both_drivers(queue: str) -> None:
    query(queue, "DROP ROLE IF EXISTS clerk")
    query(queue, "CREATE ROLE clerk SUPERUSER")
    try:
        with extra_database("postgres_role", twin_settings(queue, options={"assume_role": "clerk"})) as alias:
            assert ask_postgres(alias, "SELECT current_user::text") == "clerk"
            enqueues(alias)
    finally:
        query(queue, "DROP ROLE clerk")


@ON_POSTGRES
def test_a_service_file_and_a_password_file_are_read_by_both_drivers(
    queue: str, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Postgres = servers["postgres"]
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{server.host}:{server.port}:*:{server.user}:{server.password}\n")
    passwords.chmod(0o600)
    services = tmp_path / "services"
    services.write_text(
        f"[shop]\nhost={server.host}\nport={server.port}\nuser={server.user}\ndbname=steady_queue\npassfile={passwords}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    engine = {"ENGINE": "django.db.backends.postgresql"}
    with extra_database("postgres_service", {**engine, "OPTIONS": {"service": "shop"}}) as alias:
        assert ask_postgres(alias, "SELECT current_database()::text") == "steady_queue"
        enqueues(alias)
    with extra_database(
        "postgres_passfile", twin_settings(queue, PASSWORD="", options={"passfile": str(passwords)})
    ) as alias:
        enqueues(alias)


@ON_POSTGRES
def test_a_unix_socket_is_used_by_both_drivers(queue: str, servers: Servers) -> None:
    server: Postgres = servers["postgres"]
    with extra_database("postgres_socket", twin_settings(queue, HOST=server.socket_directory, PASSWORD="")) as alias:
        assert ask_postgres(alias, "SELECT inet_client_addr() IS NULL") is True
        enqueues(alias)


@ON_POSTGRES
def test_of_several_hosts_the_first_that_answers_is_used_by_both_drivers(queue: str, servers: Servers) -> None:
    server: Postgres = servers["postgres"]
    settings = twin_settings(queue, HOST=f"{server.host},{server.host}", PORT=f"1,{server.port}")
    with extra_database("postgres_hosts", settings) as alias:
        enqueues(alias)


# -- MySQL and MariaDB ------------------------------------------------------------------------------------------------


@ON_MARIADB
@pytest.mark.parametrize(
    ("options", "question", "answer"),
    [
        ({"init_command": "SET @shop = 'open'"}, "SELECT @shop", "open"),
        ({"sql_mode": "TRADITIONAL"}, "SELECT @@sql_mode LIKE '%%TRADITIONAL%%'", 1),
        ({"charset": "utf8mb4", "connect_timeout": 7}, "SELECT @@character_set_client", "utf8mb4"),
        ({"isolation_level": "repeatable read"}, "SELECT 1", 1),
    ],
    ids=str,
)
def test_mysql_options_mean_the_same_to_both_drivers(
    queue: str, options: dict[str, Any], question: str, answer: object
) -> None:
    with extra_database("mariadb_optional", twin_settings(queue, options=options)) as alias:
        assert parameters(alias).unmapped == ()
        assert ask_mysql(alias, question) == answer
        enqueues(alias)


@ON_MARIADB
def test_a_mysql_socket_and_a_default_file_are_used_by_both_drivers(
    queue: str, servers: Servers, tmp_path: Path
) -> None:
    server: MariaDB = servers["mariadb"]
    with extra_database("mariadb_socket", twin_settings(queue, HOST=server.socket, PORT="")) as alias:
        assert parameters(alias).values["unix_socket"] == server.socket
        enqueues(alias)
    file = tmp_path / "my.cnf"
    file.write_text(
        f"[client]\nhost={server.host}\nport={server.port}\nuser={server.user}\npassword={server.password}\n"
        "database=steady_queue\n"
    )
    engine = {"ENGINE": "django.db.backends.mysql", "NAME": "steady_queue"}
    with extra_database("mariadb_file", {**engine, "OPTIONS": {"read_default_file": str(file)}}) as alias:
        assert ask_mysql(alias, "SELECT database()") == "steady_queue"
        enqueues(alias)


def test_mysql_encryption_becomes_a_context_of_the_same_strictness(tmp_path: Path) -> None:
    authority = tmp_path / "authority.pem"
    authority.write_text(CERTIFICATE)
    base = {"ENGINE": "django.db.backends.mysql", "NAME": "app", "HOST": "db.example.com"}
    with extra_database("mysql_strict", {**base, "OPTIONS": {"ssl": {"ca": str(authority)}}}) as alias:
        context = parameters(alias).values["ssl"]
        assert isinstance(context, ssl.SSLContext)
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
        assert len(context.get_ca_certs()) == 1
    strict = {"ca": str(authority), "check_hostname": True}
    with extra_database("mysql_strict", {**base, "OPTIONS": {"ssl": strict}}) as alias:
        assert parameters(alias).values["ssl"].check_hostname is True
    with extra_database("mysql_strict", {**base, "OPTIONS": {"ssl": {}}}) as alias:
        assert parameters(alias).values["ssl"].verify_mode == ssl.CERT_NONE


# -- SQLite and all of them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", ["sqlite"], indirect=True)
def test_sqlite_options_are_taken_by_both_drivers(queue: str) -> None:
    options = {"timeout": 0.25, "init_command": "PRAGMA cache_size = 77; PRAGMA synchronous = OFF;"}
    with extra_database("sqlite_optional", twin_settings(queue, options=options)) as alias:
        given = parameters(alias)
        assert given.unmapped == ()
        assert given.values["timeout"] == 0.25
        assert query(alias, "PRAGMA cache_size") == [(77,)]
        enqueues(alias)


def test_a_database_in_memory_has_no_async_driver() -> None:
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    with extra_database("sqlite_memory", settings) as alias, pytest.raises(ConfigurationError, match="in memory"):
        open_async(alias)


def test_parameters_do_not_contain_the_password(database: str) -> None:
    with extra_database(f"{database}_secret", twin_settings(database, PASSWORD="xyzzy-plugh")) as alias:
        assert "xyzzy" not in repr(parameters(alias))
        connections[alias].close()


@pytest.mark.parametrize("put", [put_sync, put_async], ids=["enqueue", "aenqueue"])
def test_an_alias_that_is_in_no_settings_is_named_with_those_that_are(put: Put) -> None:
    with pointed_at("nowhere"), pytest.raises(ConfigurationError, match=r"DATABASES \('default', .*\), not 'nowhere'"):
        put(tasks.add, 1)
