"""Open drivers for an alias in DATABASES.

The parameters are those with which Django itself connects, so service files, custom backends and the names of test
databases work. A system check reports a parameter that an async driver does not support; none is ignored silently.

They are computed for each new connection, as Django computes them for its own: the password of a managed database may
be a token that expires long before the process does.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

import steady_queue
from steady_queue.errors import ConfigurationError, StoreUnavailable
from steady_queue.store.drivers.django import DjangoDriver, dialect_of
from steady_queue.store.operations.database.charset import CHARSET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from django.db.backends.base.base import BaseDatabaseWrapper

    from steady_queue.store.drivers.pool import ConnectionParameters, Pool


@dataclass(frozen=True, slots=True)
class Parameters:
    """The connection parameters of an async driver, and the names of those that it does not support."""

    values: Mapping[str, Any] = field(repr=False)  # contains the password
    unmapped: tuple[str, ...] = ()


def queue_alias() -> str:
    """Return the alias of the database that holds the queue."""
    return steady_queue.database


@lru_cache
def django_driver(alias: str) -> DjangoDriver:
    """Return the driver over Django's own connection to this alias; the driver holds no connection itself."""
    require_app()
    try:
        return DjangoDriver(alias)
    except ConnectionDoesNotExist:
        raise _unknown_alias(alias) from None


def is_in_memory(alias: str) -> bool:
    """Whether the database is SQLite in memory, which only Django's own connection can reach."""
    try:
        check = getattr(connections[alias], "is_in_memory_db", None)  # only SQLite's connection has it
    except ConnectionDoesNotExist:
        raise _unknown_alias(alias) from None
    return check is not None and bool(check())


def _unknown_alias(alias: str) -> ConfigurationError:
    known = ", ".join(map(repr, connections))
    return ConfigurationError(f"steady_queue.database must be an alias in DATABASES ({known}), not {alias!r}")


def require_app() -> None:
    """Raise ConfigurationError if the app is not installed.

    Called when a driver is opened, not when a task is enqueued: no system check runs in such a project unless one of
    its apps imports the task framework. While the apps are loading, the answer is not known yet.
    """
    if apps.apps_ready and not apps.is_installed("steady_queue"):
        raise ConfigurationError(
            "'steady_queue' is not in INSTALLED_APPS: add it there, then run: python manage.py migrate"
        )


def open_async(alias: str, *, size: int = 4) -> Pool[Any]:
    """Open a driver for the running event loop; it connects when it is first used."""
    require_app()
    # Each driver is imported when it is needed: all three would cost memory and start-up time.
    connection = connections[alias]
    dialect_of(connection)
    if connection.vendor == "postgresql":
        from steady_queue.store.drivers import postgres

        return postgres.open_pool(connection_parameters(alias), size=size, pooled_by_server=is_pooled_by_server(alias))
    if connection.vendor == "mysql":
        from steady_queue.store.drivers import mysql

        return mysql.open_pool(connection_parameters(alias), size=size)
    if is_in_memory(alias):
        raise ConfigurationError(f"the database {alias!r} is in memory: only Django's own connection can reach it")
    from steady_queue.store.drivers import sqlite

    return sqlite.open_pool(parameters(alias).values)


def import_async_driver(alias: str) -> None:
    """Import the async driver of an alias, as `open_async` does.

    A thread that imports it would leave half of a module to a process that is forked meanwhile.
    """
    vendor = connections[alias].vendor
    import_module(f"steady_queue.store.drivers.{'postgres' if vendor == 'postgresql' else vendor}")


def is_pooled_by_server(alias: str) -> bool:
    """Whether connections go through a pooler in transaction mode, by Django's own setting for that."""
    return bool(connections[alias].settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"))


def parameters(alias: str) -> Parameters:
    """Return the connection parameters of an alias, under the names of its async driver."""
    connection = connections[alias]
    dialect_of(connection)
    return _MAPPERS[connection.vendor](connection)


def connection_parameters(alias: str) -> ConnectionParameters:
    """Return the function with which an async driver computes the parameters of each new connection."""
    # The project's own database backend may ask another service for a password: not in the event loop.
    may_block = not type(connections[alias]).get_connection_params.__module__.startswith("django.db.backends.")

    async def compute() -> Mapping[str, Any]:
        try:
            return (await asyncio.to_thread(parameters, alias) if may_block else parameters(alias)).values
        except (ImproperlyConfigured, ConfigurationError):
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise StoreUnavailable(f"no parameters for a connection to the database {alias!r}: {cause}") from error

    return compute


#: For psycopg only; asyncpg needs none of them.
_PSYCOPG_ONLY = {"client_encoding", "context", "cursor_factory", "prepare_threshold", "row_factory", "autocommit"}
#: Passed to asyncpg in a DSN, under the names of libpq.
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
        # Without a path, which would override the database of a service file.
        values["dsn"] = f"postgresql://?{urlencode(libpq)}"
    if role := connection.settings_dict.get("OPTIONS", {}).get("assume_role"):
        values["server_settings"] = {"role": role}
    return Parameters(values, tuple(unmapped))


def _hosts(key: str, value: str) -> Any:
    """Return a host or a port, or a list of them if several are separated by commas."""
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
#: For mysqlclient only: how it converts values, and flags that aiomysql sets by itself.
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
    # Not the charset of Django's connection, which the project may have changed: stored text may have any character.
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
#: For Django's connection only; the async driver begins its transactions itself.
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
