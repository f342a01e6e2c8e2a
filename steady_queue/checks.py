"""System checks of a backend: what would fail later, named now. Nothing here connects to a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.core.checks import Error, Warning
from django.db import connections

from steady_queue.compat import FRAMEWORK, NATIVE
from steady_queue.databases import parameters, queue_alias
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage

    from steady_queue.backend import SteadyQueueBackend

#: The ids of messages that say that the database of the queue cannot even be connected to.
UNUSABLE = {"steady_queue.E006", "steady_queue.E007", "steady_queue.E008"}
_OPTIONS = {"aenqueue", "commit_with", "max_arguments_bytes"}


def check_backend(backend: SteadyQueueBackend) -> list[CheckMessage]:
    """Every problem of one entry in TASKS and of the database it uses."""
    return [*check_installation(), *_options(backend)]


def check_installation() -> list[CheckMessage]:
    """Every problem that no entry in TASKS has to itself: of the apps and of the database."""
    return [*_apps(), *_database()]


def _apps() -> Iterator[CheckMessage]:
    if not apps.is_installed("steady_queue"):
        yield Error(
            "'steady_queue' is not in INSTALLED_APPS.", hint="Add it, then run migrate.", id="steady_queue.E001"
        )
    if not NATIVE and not apps.is_installed("django_tasks"):
        yield Warning(
            f"'{FRAMEWORK}' is not in INSTALLED_APPS: its checks do not run and tasks are not logged.",
            id="steady_queue.W001",
        )


def _options(backend: SteadyQueueBackend) -> Iterator[CheckMessage]:
    where = f"TASKS[{backend.alias!r}]['OPTIONS']"
    for name in sorted(map(str, set(backend.options) - _OPTIONS)):
        yield Error(f"{where} has an unknown option {name!r}.", id="steady_queue.E002")
    if backend.async_connection not in ("auto", "django", "native"):
        yield Error(
            f"{where}['aenqueue'] must be 'auto', 'django' or 'native', not {backend.async_connection!r}.",
            id="steady_queue.E003",
        )
    if backend.commit_with not in connections:
        yield Error(f"{where}['commit_with'] names no database: {backend.commit_with!r}.", id="steady_queue.E004")
    if not isinstance(backend.max_arguments_bytes, int) or backend.max_arguments_bytes < 1:
        yield Error(f"{where}['max_arguments_bytes'] must be a number of bytes.", id="steady_queue.E005")


def _database() -> Iterator[CheckMessage]:
    alias = queue_alias()
    if alias not in connections:
        yield Error(f"steady_queue.database names no database: {alias!r}.", id="steady_queue.E006")
        return
    try:
        unmapped = parameters(alias).unmapped
    except ConfigurationError as error:
        yield Error(f"{error}.", id="steady_queue.E007")
        return
    except Exception as error:  # whatever Django's own backend says about its settings
        yield Error(f"The database {alias!r} is not configured: {error}", id="steady_queue.E008")
        return
    for name in unmapped:
        yield Warning(
            f"The option {name!r} of the database {alias!r} is unknown to the async driver, which connects without it.",
            hint="Remove it, or use OPTIONS={'aenqueue': 'django'} so that only Django's own connection is used.",
            id="steady_queue.W002",
        )
    yield from _sqlite(alias)
    yield from _mysql(alias)


def _mysql(alias: str) -> Iterator[CheckMessage]:
    if connections[alias].vendor != "mysql":
        return
    values = parameters(alias).values
    if values.get("host", "localhost") == "localhost" and not values.keys() & {"unix_socket", "read_default_file"}:
        yield Warning(
            f"The database {alias!r} is on 'localhost': Django's driver takes that for the server's default socket, "
            "the async driver for TCP.",
            hint="Set HOST to '127.0.0.1', or to the path of the socket.",
            id="steady_queue.W004",
        )


def _sqlite(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return
    mode = connection.settings_dict.get("OPTIONS", {}).get("transaction_mode")
    if str(mode).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Warning(
            f"The SQLite database {alias!r} opens its transactions for reading: one that enqueues later may fail at "
            "once with 'database is locked'.",
            hint="Set OPTIONS['transaction_mode'] = 'IMMEDIATE'.",
            id="steady_queue.W003",
        )
