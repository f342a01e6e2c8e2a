"""System checks of a backend and of its database: what would fail later, named now. Nothing here connects to one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.checks import Error, Warning
from django.db import connections, router

from steady_queue.db import notify
from steady_queue.db.aliases import parameters, queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import FRAMEWORK, NATIVE, task_backends
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable
from steady_queue.store.operations.charset import CHARSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage

    from steady_queue.backend import SteadyQueueBackend

#: The ids of messages that say that the database of the queue cannot even be connected to.
UNUSABLE = {"steady_queue.E006", "steady_queue.E007", "steady_queue.E008"}
_OPTIONS = {"aenqueue", "commit_with", "max_arguments_bytes"}
_KEYS = {"BACKEND", "QUEUES", "OPTIONS"}


def check_backend(backend: SteadyQueueBackend) -> list[CheckMessage]:
    """Every problem of one entry in TASKS."""
    # The app cannot say that it is missing; the first of the backends does, so that it is said once.
    missing = _app() if _is_first(backend) else ()
    return [*missing, *_entry(backend), *_options(backend)]


def check_installation() -> list[CheckMessage]:
    """Every problem that no entry in TASKS has to itself: of the apps and of the database."""
    return [*_app(), *_framework(), *_database()]


def _is_first(backend: SteadyQueueBackend) -> bool:
    for alias in task_backends:
        with suppress(Exception):  # an entry that cannot be used is told of elsewhere
            if isinstance(task_backends[alias], type(backend)):
                return bool(alias == backend.alias)
    return True


def check_tasks() -> Iterator[CheckMessage]:
    """Whether there is any backend; one of another kind is a choice."""
    if not getattr(settings, "TASKS", None):
        yield Warning(
            "TASKS has no entry: no task can be kept in the database.",
            hint="TASKS = {'default': {'BACKEND': 'steady_queue.backend.SteadyQueueBackend'}}.",
            id="steady_queue.W011",
        )


def _app() -> Iterator[CheckMessage]:
    if not apps.is_installed("steady_queue"):
        yield Error(
            "'steady_queue' is not in INSTALLED_APPS.", hint="Add it, then run migrate.", id="steady_queue.E001"
        )


def _framework() -> Iterator[CheckMessage]:
    if not NATIVE and not apps.is_installed("django_tasks"):
        yield Warning(
            f"'{FRAMEWORK}' is not in INSTALLED_APPS: its checks do not run and tasks are not logged.",
            hint="Add it.",
            id="steady_queue.W001",
        )


def _entry(backend: SteadyQueueBackend) -> Iterator[CheckMessage]:
    where, given = f"TASKS[{backend.alias!r}]", settings.TASKS.get(backend.alias, {})
    for name in sorted(map(str, given.keys() - _KEYS)):
        yield Warning(
            f"{where} has {name!r}, which means nothing.",
            hint=f"It may have {', '.join(sorted(_KEYS))}.",
            id="steady_queue.W010",
        )
    queues = given.get("QUEUES", [])
    if not isinstance(queues, (list, tuple, set, frozenset)):
        yield Error(
            f"{where}['QUEUES'] must be a list of names, not {queues!r}.",
            hint="['default'] has one queue, [] allows any.",
            id="steady_queue.E009",
        )
        return
    for name in queues:
        reason = explain_unstorable(name, NAME_LENGTH) if isinstance(name, str) else "must be a text"
        if reason or explain_bad_queue_name(name):
            yield Error(
                f"{where}['QUEUES'] has a name that cannot be one: {name!r}.",
                hint=f"A name has 1 to {NAME_LENGTH} characters, no star, and no whitespace at its ends.",
                id="steady_queue.E009",
            )


def _options(backend: SteadyQueueBackend) -> Iterator[CheckMessage]:
    where = f"TASKS[{backend.alias!r}]['OPTIONS']"
    given: object = settings.TASKS.get(backend.alias, {}).get("OPTIONS", {})
    if not isinstance(given, dict):
        yield Error(
            f"{where} must be a dictionary, not {given!r}.",
            hint=f"It may have {', '.join(sorted(_OPTIONS))}; leave it out for the defaults.",
            id="steady_queue.E002",
        )
        return
    for name in sorted(map(str, set(backend.options) - _OPTIONS)):
        yield Error(
            f"{where} has an unknown option {name!r}.",
            hint=f"There are {', '.join(sorted(_OPTIONS))}.",
            id="steady_queue.E002",
        )
    if backend.async_connection not in ("auto", "django", "native"):
        yield Error(
            f"{where}['aenqueue'] must be 'auto', 'django' or 'native', not {backend.async_connection!r}.",
            hint="Leave it out for 'auto'.",
            id="steady_queue.E003",
        )
    if backend.commit_with not in connections:
        yield Error(
            f"{where}['commit_with'] names no database: {backend.commit_with!r}.",
            hint=f"There are {_aliases()}.",
            id="steady_queue.E004",
        )
    if not isinstance(backend.max_arguments_bytes, int) or backend.max_arguments_bytes < 1:
        yield Error(
            f"{where}['max_arguments_bytes'] must be a number of bytes.",
            hint="Leave it out for 4 MiB.",
            id="steady_queue.E005",
        )


def _aliases() -> str:
    return ", ".join(map(repr, connections))


def _database() -> Iterator[CheckMessage]:
    alias = queue_alias()
    if alias not in connections:
        yield Error(
            f"steady_queue.database names no database: {alias!r}.",
            hint=f"There are {_aliases()}.",
            id="steady_queue.E006",
        )
        return
    try:
        unmapped = parameters(alias).unmapped
    except ConfigurationError as error:
        yield Error(
            f"{error}.", hint="Name another alias of DATABASES in steady_queue.database.", id="steady_queue.E007"
        )
        return
    except Exception as error:  # whatever Django's own backend says about its settings
        yield Error(
            f"The database {alias!r} is not configured: {error}",
            hint=f"See DATABASES[{alias!r}].",
            id="steady_queue.E008",
        )
        return
    for name in unmapped:
        yield Warning(
            f"The option {name!r} of the database {alias!r} is unknown to the async driver, which connects without it.",
            hint="Remove it, or use OPTIONS={'aenqueue': 'django'} so that only Django's own connection is used.",
            id="steady_queue.W002",
        )
    yield from _routers(alias)
    yield from _sqlite(alias)
    yield from _mysql(alias)
    yield from _postgres(alias)


def _routers(alias: str) -> Iterator[CheckMessage]:
    if not apps.is_installed("steady_queue"):
        return
    if not router.allow_migrate(alias, "steady_queue"):
        yield Error(
            f"A router keeps the migrations of Steady Queue from the database {alias!r}, which holds the queue.",
            hint="Put 'steady_queue.db_router.SteadyQueueRouter' first in DATABASE_ROUTERS.",
            id="steady_queue.E011",
        )
    job = apps.get_model("steady_queue", "Job")
    others = sorted({router.db_for_read(job), router.db_for_write(job)} - {alias})
    if others:
        yield Warning(
            f"The queue is in the database {alias!r}, but its models are looked for in {others[0]!r}.",
            hint="Put 'steady_queue.db_router.SteadyQueueRouter' first in DATABASE_ROUTERS.",
            id="steady_queue.W005",
        )


def _postgres(alias: str) -> Iterator[CheckMessage]:
    connection = connections[alias]
    # Django's own setting for a pooler in transaction mode, and the only sign that there is one.
    is_pooled = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    if connection.vendor == "postgresql" and is_pooled and notify.is_notifying:
        yield Warning(
            f"The database {alias!r} is set up for a pooler in transaction mode (DISABLE_SERVER_SIDE_CURSORS), through "
            "which no notification comes: workers would try to listen again and again, and find tasks by polling.",
            hint="In settings.py: from steady_queue.db import notify; notify.is_notifying = False. For wake-ups, let "
            "steady_queue.database name an alias that leads to the server itself.",
            id="steady_queue.W006",
        )


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
    charset = connections[alias].get_connection_params().get("charset", CHARSET)
    if charset != CHARSET:
        yield Warning(
            f"Django connects to the database {alias!r} with the character set {charset!r}: names with characters "
            "outside of it cannot be enqueued, and such characters of an error cannot be read.",
            hint=f"Set DATABASES[{alias!r}]['OPTIONS']['charset'] = {CHARSET!r}, or leave it out.",
            id="steady_queue.W012",
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
