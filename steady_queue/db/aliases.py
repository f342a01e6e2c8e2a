"""From an alias in DATABASES to the drivers that reach it.

The parameters are those that Django itself would connect with, so service files, custom backends and the names of test
databases work. A parameter that an async driver cannot take is named by a system check, never dropped in silence.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db import connections

import steady_queue
from steady_queue.errors import ConfigurationError
from steady_queue.store.drivers.django import DjangoDriver, dialect_of
from steady_queue.store.operations.charset import CHARSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.db.backends.base.base import BaseDatabaseWrapper

    from steady_queue.store.drivers.pool import AsyncDriver


@dataclass(frozen=True, slots=True)
class Parameters:
    """How an async driver connects, and what it was asked for but cannot do."""

    values: Mapping[str, Any] = field(repr=False)  # holds the password
    unmapped: tuple[str, ...] = ()


def queue_alias() -> str:
    """The alias of the database that holds the queue."""
    return steady_queue.database


@lru_cache
def django_driver(alias: str) -> DjangoDriver:
    """The driver over Django's own connection to this alias; it holds no connection itself."""
    return DjangoDriver(alias)


def is_in_memory(alias: str) -> bool:
    """Whether the database lives in Django's own connection, where no other connection can reach it."""
    ask = getattr(connections[alias], "is_in_memory_db", None)  # only SQLite's has it
    return ask is not None and bool(ask())


def open_async(alias: str, *, size: int = 4) -> AsyncDriver:
    """A new driver for the running event loop; nothing is connected until it is used."""
    # Each is imported when it is needed: three of them cost memory and a part of the start.
    connection = connections[alias]
    values = parameters(alias).values
    if connection.vendor == "postgresql":
        from steady_queue.store.drivers import postgres

        # Django's own setting for connections that go through a pooler in transaction mode.
        pooled = bool(connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"))
        return postgres.open_pool(values, size=size, pooled_by_server=pooled)
    if connection.vendor == "mysql":
        from steady_queue.store.drivers import mysql

        return mysql.open_pool(values, size=size)
    if is_in_memory(alias):
        raise ConfigurationError(f"the database {alias!r} is in memory: only Django's own connection can reach it")
    from steady_queue.store.drivers import sqlite

    return sqlite.open_pool(values)


def parameters(alias: str) -> Parameters:
    """The connection parameters of an alias, put into the words of its async driver."""
    connection = connections[alias]
    dialect_of(connection)
    return _MAPPERS[connection.vendor](connection)


#: Meant for psycopg alone, and without meaning elsewhere.
_PSYCOPG_ONLY = {"client_encoding", "context", "cursor_factory", "prepare_threshold", "row_factory", "autocommit"}
#: Told to asyncpg in the words of libpq.
_LIBPQ = {
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "ssl_min_protocol_version"),
    *("ssl_max_protocol_version", "target_session_attrs", "krbsrvname", "gsslib", "service", "servicefile", "passfile"),
    *("application_name", "options", "fallback_application_name"),
}
_ASYNCPG = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}


def _for_asyncpg(connection: BaseDatabaseWrapper) -> Parameters:
    values: dict[str, Any] = {}
    libpq: dict[str, str] = {}
    unmapped: list[str] = []
    for key, value in connection.get_connection_params().items():
        if key in _ASYNCPG:
            values[_ASYNCPG[key]] = _hosts(key, str(value)) if key in ("host", "port") else value
        elif key == "connect_timeout":
            values["timeout"] = float(value)
        elif key in _LIBPQ:
            libpq[key] = str(value)
        elif key not in _PSYCOPG_ONLY:
            unmapped.append(key)
    if fallback := libpq.pop("fallback_application_name", None):
        libpq.setdefault("application_name", fallback)
    if libpq:
        # Without a path, which would hide the database that a service names.
        values["dsn"] = f"postgresql://?{urlencode(libpq)}"
    if role := connection.settings_dict.get("OPTIONS", {}).get("assume_role"):
        values["server_settings"] = {"role": role}
    return Parameters(values, tuple(unmapped))


def _hosts(key: str, value: str) -> Any:
    """A host or a port, or as many as stand with commas between."""
    parts = value.split(",")
    values = [int(part) for part in parts] if key == "port" else parts
    return values if len(values) > 1 else values[0]


_AIOMYSQL = {
    **{
        name: name
        for name in ("host", "port", "user", "password", "unix_socket", "charset", "sql_mode", "init_command")
    },
    **{name: name for name in ("read_default_file", "read_default_group", "connect_timeout", "use_unicode")},
    "database": "db",
    "db": "db",
    "passwd": "password",
}
#: Meant for mysqlclient alone: how it converts values, and flags that aiomysql sets by itself.
_MYSQLCLIENT_ONLY = {"conv", "client_flag", "autocommit", "cursorclass", "binary_prefix", "compress", "local_infile"}


def _for_aiomysql(connection: BaseDatabaseWrapper) -> Parameters:
    values: dict[str, Any] = {}
    unmapped: list[str] = []
    for key, value in connection.get_connection_params().items():
        if key in _AIOMYSQL:
            values[_AIOMYSQL[key]] = value
        elif key == "ssl" and isinstance(value, dict):
            values["ssl"] = _ssl_context(value)
        elif key not in _MYSQLCLIENT_ONLY:
            unmapped.append(key)
    # Whatever the project has chosen for Django's connection: our texts may have any character.
    values["charset"] = CHARSET
    return Parameters(values, tuple(unmapped))


def _ssl_context(options: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ca"), capath=options.get("capath"))
    context.check_hostname = bool(options.get("check_hostname", False))
    if not options.get("ca") and not options.get("capath"):
        context.verify_mode = ssl.CERT_NONE
    if options.get("cert"):
        context.load_cert_chain(options["cert"], options.get("key"))
    if options.get("cipher"):
        context.set_ciphers(options["cipher"])
    return context


_SQLITE = {"database", "timeout", "uri", "cached_statements"}
#: Django's own ways with its connection; ours begins its transactions itself.
_DJANGO_SQLITE_ONLY = {"detect_types", "check_same_thread", "isolation_level", "transaction_mode", "autocommit"}


def _for_aiosqlite(connection: BaseDatabaseWrapper) -> Parameters:
    given = dict(connection.get_connection_params())
    values = {key: value for key, value in given.items() if key in _SQLITE}
    unmapped = [key for key in given if key not in _SQLITE | _DJANGO_SQLITE_ONLY | {"init_command"}]
    values["init_command"] = connection.settings_dict.get("OPTIONS", {}).get("init_command", "")
    return Parameters(values, tuple(unmapped))


_MAPPERS: dict[str, Callable[[BaseDatabaseWrapper], Parameters]] = {
    "postgresql": _for_asyncpg,
    "mysql": _for_aiomysql,
    "sqlite": _for_aiosqlite,
}
