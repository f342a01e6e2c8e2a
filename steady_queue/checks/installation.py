"""System checks of one backend and of the installation. They do not connect to a database."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.checks import Error, Warning
from django.db import connections, router

import steady_queue
from steady_queue.checks.framework import check_framework
from steady_queue.db.aliases import parameters, queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import task_backends
from steady_queue.jobs.definition.policy import PROJECT_OPTIONS, find_problems
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable
from steady_queue.store.operations.database.charset import CHARSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from django.core.checks import CheckMessage

    from steady_queue.backend import SteadyQueueBackend

#: The ids of messages because of which the queue's database cannot be connected to.
_UNUSABLE = {"steady_queue.E006", "steady_queue.E007", "steady_queue.E008"}
_OPTIONS = {"aenqueue", "commit_with", "max_arguments_bytes", *PROJECT_OPTIONS}
_KEYS = {"BACKEND", "QUEUES", "OPTIONS"}
_ADD_ROUTER = "Put 'steady_queue.db_router.SteadyQueueRouter' first in DATABASE_ROUTERS."


def check_backend(backend: SteadyQueueBackend) -> list[CheckMessage]:
    """All problems of one entry in TASKS."""
    # The app cannot report that it is missing; the first backend does, so that it is reported once.
    missing = _check_app() if _is_first(backend) else ()
    return [*missing, *_check_entry(backend), *_check_options(backend)]


def check_installation() -> list[CheckMessage]:
    """All problems of INSTALLED_APPS and of the queue's database, which all entries in TASKS share."""
    return [*_check_app(), *check_framework(), *_check_database()]


def can_connect(messages: Iterable[CheckMessage]) -> bool:
    """Whether the settings of the queue's database allow a connection, by the messages of `check_installation`."""
    return not any(message.id in _UNUSABLE for message in messages)


def _is_first(backend: SteadyQueueBackend) -> bool:
    for alias in task_backends:
        with suppress(Exception):  # another check reports an entry that cannot be used
            if isinstance(task_backends[alias], type(backend)):
                return bool(alias == backend.alias)
    return True


def _check_app() -> Iterator[CheckMessage]:
    if not apps.is_installed("steady_queue"):
        yield Error(
            "'steady_queue' is not in INSTALLED_APPS.",
            hint="Add it to INSTALLED_APPS, then run: python manage.py migrate.",
            id="steady_queue.E001",
        )


def _check_entry(backend: SteadyQueueBackend) -> Iterator[CheckMessage]:
    where, given = f"TASKS[{backend.alias!r}]", settings.TASKS.get(backend.alias, {})
    for name in sorted(map(str, given.keys() - _KEYS)):
        yield Warning(
            f"{name!r} is not a recognised key of {where}.",
            hint=f"The keys are {', '.join(sorted(_KEYS))}.",
            id="steady_queue.W010",
        )
    queues = given.get("QUEUES", [])
    if not isinstance(queues, (list, tuple, set, frozenset)):
        yield Error(
            f"{where}['QUEUES'] must be a list of queue names, not {queues!r}.",
            hint="Use ['default'] for one queue, or [] to allow any queue.",
            id="steady_queue.E009",
        )
        return
    for name in queues:
        reason = explain_unstorable(name, NAME_LENGTH) if isinstance(name, str) else "must be a string"
        if reason or explain_bad_queue_name(name):
            yield Error(
                f"{where}['QUEUES'] contains an invalid queue name: {name!r}.",
                hint=f"A name has 1 to {NAME_LENGTH} characters, no asterisk, and no leading or trailing whitespace.",
                id="steady_queue.E009",
            )


def _check_options(backend: SteadyQueueBackend) -> Iterator[CheckMessage]:
    where = f"TASKS[{backend.alias!r}]['OPTIONS']"
    given: object = settings.TASKS.get(backend.alias, {}).get("OPTIONS", {})
    if not isinstance(given, dict):
        yield Error(
            f"{where} must be a dictionary, not {given!r}.",
            hint=f"The options are {', '.join(sorted(_OPTIONS))}; omit OPTIONS for the defaults.",
            id="steady_queue.E002",
        )
        return
    for name in sorted(map(str, set(backend.options) - _OPTIONS)):
        yield Error(
            f"{name!r} is not a recognised option of {where}.",
            hint=f"The options are {', '.join(sorted(_OPTIONS))}.",
            id="steady_queue.E002",
        )
    if backend.async_connection not in ("auto", "django", "native"):
        yield Error(
            f"{where}['aenqueue'] must be 'auto', 'django' or 'native', not {backend.async_connection!r}.",
            hint="Omit it for the default, 'auto'.",
            id="steady_queue.E003",
        )
    if backend.commit_with not in connections:
        yield Error(
            f"{where}['commit_with'] must be an alias in DATABASES, not {backend.commit_with!r}.",
            hint=f"The aliases are {_aliases()}.",
            id="steady_queue.E004",
        )
    if not isinstance(backend.max_arguments_bytes, int) or backend.max_arguments_bytes < 1:
        yield Error(
            f"{where}['max_arguments_bytes'] must be an integer of at least 1, not {backend.max_arguments_bytes!r}.",
            hint="Omit it for the default, 4 MiB.",
            id="steady_queue.E005",
        )

    for problem in find_problems(backend.options):
        yield Error(f"{where}: {problem}.", hint="Omit the option for its default.", id="steady_queue.E014")


def _aliases() -> str:
    return ", ".join(map(repr, connections))


def _check_database() -> Iterator[CheckMessage]:
    alias = queue_alias()
    if alias not in connections:
        yield Error(
            f"steady_queue.database must be an alias in DATABASES, not {alias!r}.",
            hint=f"The aliases are {_aliases()}.",
            id="steady_queue.E006",
        )
        return
    try:
        unmapped = parameters(alias).unmapped
    except ConfigurationError as error:
        yield Error(
            f"{error}.", hint="Set steady_queue.database to another alias in DATABASES.", id="steady_queue.E007"
        )
        return
    except Exception as error:  # Django's database backend refuses its settings
        yield Error(
            f"The settings of the database {alias!r} are invalid: {error}",
            hint=f"Correct DATABASES[{alias!r}].",
            id="steady_queue.E008",
        )
        return
    for name in unmapped:
        yield Warning(
            f"The async driver does not support the option {name!r} of the database {alias!r} and connects without it.",
            hint="Remove it, or set OPTIONS={'aenqueue': 'django'} in TASKS to enqueue with Django's connection only.",
            id="steady_queue.W002",
        )
    yield from _check_routers(alias)
    yield from _check_sqlite(alias)
    yield from _check_mysql(alias)
    yield from _check_postgres(alias)


def _check_routers(alias: str) -> Iterator[CheckMessage]:
    if not apps.is_installed("steady_queue"):
        return
    if not router.allow_migrate(alias, "steady_queue"):
        yield Error(
            f"A database router does not allow migrations of steady_queue on the queue's database, {alias!r}.",
            hint=_ADD_ROUTER,
            id="steady_queue.E011",
        )
    job = apps.get_model("steady_queue", "Job")
    others = sorted({router.db_for_read(job), router.db_for_write(job)} - {alias})
    if others:
        yield Warning(
            f"The queue is in the database {alias!r}, but the database routers send its models to {others[0]!r}.",
            hint=_ADD_ROUTER,
            id="steady_queue.W005",
        )


def _check_postgres(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    # Django's setting for a pooler in transaction mode, and the only indication that there is one.
    is_pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    if connection.vendor == "postgresql" and is_pooled and steady_queue.notify:
        yield Warning(
            f"The database {alias!r} is configured for a connection pooler in transaction mode "
            "(DISABLE_SERVER_SIDE_CURSORS), which does not deliver notifications: workers would try to listen "
            "repeatedly, and find tasks only by polling.",
            hint="In settings.py, set steady_queue.notify = False. To keep notifications, let steady_queue.database "
            "name an alias that leads to the server itself.",
            id="steady_queue.W006",
        )


def _check_mysql(alias: str) -> Iterator[CheckMessage]:
    if connections[alias].vendor != "mysql":
        return
    values = parameters(alias).values
    if values.get("host", "localhost") == "localhost" and not values.keys() & {"unix_socket", "read_default_file"}:
        yield Warning(
            f"The HOST of the database {alias!r} is 'localhost': Django's driver connects to the default socket of the "
            "server, the async driver connects by TCP.",
            hint="Set HOST to '127.0.0.1', or to the path of the socket.",
            id="steady_queue.W004",
        )
    charset = connections[alias].get_connection_params().get("charset", CHARSET)
    if charset != CHARSET:
        yield Warning(
            f"Django connects to the database {alias!r} with the character set {charset!r}: names with characters "
            "outside of it cannot be enqueued, and such characters in errors cannot be read.",
            hint=f"Set DATABASES[{alias!r}]['OPTIONS']['charset'] = {CHARSET!r}, or leave it out.",
            id="steady_queue.W012",
        )


def _check_sqlite(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    if connection.vendor != "sqlite":
        return
    mode = connection.settings_dict.get("OPTIONS", {}).get("transaction_mode")
    if str(mode).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Warning(
            f"Transactions of the SQLite database {alias!r} begin as read transactions: enqueueing in one of them may "
            "fail immediately with 'database is locked'.",
            hint="Set OPTIONS['transaction_mode'] = 'IMMEDIATE'.",
            id="steady_queue.W003",
        )
