"""System checks of the whole project, each reported once for any number of backends.

The connection pools of Django (PostgreSQL, OPTIONS["pool"]) are checked for their size. The runtime has its own
connections; tasks use those of the pool: one for each thread, and one for each ORM thread that async tasks share. If
the pool is smaller, tasks wait for each other, and fail after the timeout of the pool.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.checks import Error, Warning
from django.db import connections
from django.utils.module_loading import autodiscover_modules

from steady_queue.aio.process.startup import describe_schema
from steady_queue.backend import SteadyQueueBackend
from steady_queue.checks.distribution import check_distribution
from steady_queue.checks.framework import check_tasks
from steady_queue.checks.installation import can_connect, check_installation
from steady_queue.configuration import problems as configuration_problems
from steady_queue.configuration import read_options
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.errors import ConfigurationError, StoreError
from steady_queue.events.wording import suggest
from steady_queue.jobs.compat import task_backends
from steady_queue.jobs.definition.options import find_backend
from steady_queue.jobs.definition.task import transactional_tasks
from steady_queue.jobs.registry import belongs_to_installed_app
from steady_queue.store.operations.database.charset import describe_text_columns, find_text_column_problem
from steady_queue.store.operations.database.server import find_applied_migrations, find_schema_window
from steady_queue.store.operations.database.table_shapes import describe_foreign_tables, find_shapes
from steady_queue.store.queue_selection import matches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from django.core.checks import CheckMessage

    from steady_queue.configuration import Options, Worker
    from steady_queue.store.drivers.django import DjangoDriver
    from steady_queue.store.operations.database.table_shapes import Shapes

#: The hint for a database that does not answer the queries of the check.
UNREADABLE = (
    "processes do not start on this database: check that its server is available, and that the user in DATABASES may "
    "read the tables of the queue and django_migrations"
)
#: The default size of psycopg_pool, which is fixed if no `max_size` is set.
DEFAULT_POOL_SIZE = 4


def check_project(**kwargs: Any) -> list[CheckMessage]:
    """All problems of the installation and of settings.STEADY_QUEUE. Connects to no database."""
    if not apps.is_installed("steady_queue"):  # the backends report that
        return []
    return [
        *check_distribution(),
        *check_installation(),
        *check_tasks(),
        *_check_configuration(),
        *check_transactional(),
    ]


def check_schema(databases: Collection[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the queue's database has the schema of this version, if Django checks that database."""
    alias = queue_alias()
    if alias not in (databases or ()) or not can_connect(check_installation()):
        return []
    # `migrate` runs the checks before it begins, when warnings about the schema would be useless.
    is_migrating = sys.argv[1:2] == ["migrate"]
    driver = django_driver(alias)
    try:
        shapes = driver.run(find_shapes(driver.sql))
        if problem := describe_foreign_tables(alias, shapes):
            return [_message(Error, "E013", *_split(problem))]
        return [] if is_migrating else [*_check_migrations(driver, shapes)] or _check_text_columns(driver)
    except StoreError as error:
        if is_migrating:
            return []
        return [_message(Warning, "W009", f"the schema of the database {alias!r} cannot be read: {error}", UNREADABLE)]


def _check_migrations(driver: DjangoDriver, shapes: Shapes) -> Iterator[CheckMessage]:
    migrations = driver.run(find_applied_migrations(driver.sql))
    window = driver.run(find_schema_window(driver.sql))
    if problem := describe_schema(driver.alias, shapes, migrations, window):
        yield _message(Warning, "W009", *_split(problem))


def _split(problem: str) -> tuple[str, str]:
    text, _, hint = problem.partition("; ")
    return text, hint


def _check_text_columns(driver: DjangoDriver) -> list[CheckMessage]:
    unfit_columns = driver.run(find_text_column_problem(driver.sql))
    if unfit_columns is None:
        return []
    return [_message(Warning, "W013", *describe_text_columns(driver.alias, unfit_columns))]


def _message(kind: type[Error | Warning], number: str, text: str, hint: str) -> CheckMessage:
    """A message; an error prevents commands that migrate from running, a warning does not."""
    text, hint = (f"{part[0].upper()}{part[1:]}" for part in (text, hint))
    return kind(f"{text}.", hint=hint, id=f"steady_queue.{number}")


def _check_configuration() -> Iterator[CheckMessage]:
    try:
        options = read_options()
        problems = list(configuration_problems(options))
    except ConfigurationError as error:
        problems = [str(error)]
    if problems:
        hint = "Correct STEADY_QUEUE, or the attributes of steady_queue, in settings.py."
        yield from (Error(f"{problem}.", hint=hint, id="steady_queue.E010") for problem in problems)
        return
    yield from (message for _, message in check_queues(options, Backends().queues()))
    yield from check_pools(options)


# -- checks that `steady_queue check` runs as well --------------------------------------------------------------------


class Backends:
    """The entries of TASKS that use Steady Queue, and the problems of entries that cannot be used."""

    def __init__(self) -> None:
        self.ours: dict[str, SteadyQueueBackend] = {}
        self.broken: list[str] = []
        for alias in task_backends:
            try:
                backend = find_backend(alias)
            except Exception as error:
                self.broken.append(f"TASKS[{alias!r}] cannot be used: {error}")
                continue
            if isinstance(backend, SteadyQueueBackend):
                self.ours[alias] = backend

    def queues(self) -> list[str] | None:
        """The queues in which tasks can be enqueued; None if any queue is allowed."""
        if not self.ours or self.broken or not all(backend.queues for backend in self.ours.values()):
            return None
        return sorted(set().union(*(backend.queues for backend in self.ours.values())))


def check_queues(options: Options, known: list[str] | None) -> Iterator[tuple[str, CheckMessage]]:
    """The name and a warning of each queue that a worker serves or excludes and in which no backend enqueues."""
    for number, worker in enumerate(options.workers):
        selection = worker.selection
        for name in (*selection.patterns, *selection.excluded):
            if "*" in name[:-1]:
                text = f"workers[{number}]: {name!r} matches no queue: an asterisk may only be at the end."
                hint = "Use a name, a prefix such as 'mail*', or '*'."
                yield name, Warning(text, hint=hint, id="steady_queue.W007")
            elif known is not None and not any(matches(name, queue) for queue in known):
                suggestion = suggest(name.rstrip("*"), known, most=3)
                hint = f"{suggestion[0].upper()}{suggestion[1:]}" if suggestion else f"The queues are {known}."
                text = f"workers[{number}]: no backend in TASKS has a queue {name!r} in its QUEUES."
                yield name, Warning(text, hint=hint, id="steady_queue.W007")
        if selection.excluded and known is not None and not any(map(selection.serves, known)):
            text = f"workers[{number}]: the excluded queues leave none of the queues {known}."
            yield selection.excluded[0], Warning(text, hint="Exclude fewer queues.", id="steady_queue.W007")


def check_transactional() -> Iterator[CheckMessage]:
    """The transactional tasks of backends whose application has another database than the queue."""
    alias = queue_alias()
    others = {name: own.commit_with for name, own in Backends().ours.items() if own.commit_with != alias}
    if not others:
        return
    with suppress(Exception):  # of the project's code: `steady_queue check` reports it
        autodiscover_modules("tasks")
    for path, backend in sorted(transactional_tasks.items()):
        if backend in others and belongs_to_installed_app(path.rpartition(".")[0]):
            yield Error(
                f"The task {path} is transactional, but the queue is in the database {alias!r} and the application in "
                f"{others[backend]!r}: they have no common transaction.",
                hint="Put the queue into the database of the application, or remove transactional=True. If the "
                f"application is in {alias!r}, set OPTIONS={{'commit_with': {alias!r}}} in TASKS.",
                id="steady_queue.E015",
            )


def check_pools(options: Options, *, in_one_loop: bool = False) -> Iterator[CheckMessage]:
    """The connection pools in DATABASES that are smaller than what the tasks of one process may use."""
    needed = connections_needed(options, in_one_loop=in_one_loop)
    for alias in connections:
        size = pool_size(connections.settings[alias])
        if size is not None and size < needed:
            yield Warning(
                f"The pool of the database {alias!r} has at most {size} connections, but the tasks of one process may "
                f"use {needed} at the same time.",
                hint=f"Set OPTIONS['pool'] = {{'max_size': {needed}}} or more, or reduce threads and orm_lanes.",
                id="steady_queue.W008",
            )


def connections_needed(options: Options, *, in_one_loop: bool = False) -> int:
    """The number of Django's connections to one database that the tasks of a process may use at the same time."""

    def of_process(workers: Sequence[Worker]) -> int:
        lanes = max((worker.orm_lanes for worker in workers if worker.coroutines), default=0)
        return sum(worker.threads for worker in workers) + lanes

    processes = [options.workers] if in_one_loop else [[worker] for worker in options.workers]
    return max(map(of_process, processes), default=0)


def pool_size(settings: Mapping[str, Any]) -> int | None:
    """The maximum size of the pool of a database; None without a pool, or if its size is invalid."""
    pool = settings.get("OPTIONS", {}).get("pool")
    if not pool or settings.get("ENGINE") == "django.db.backends.oracle":
        return None
    given = pool if isinstance(pool, dict) else {}
    size = given.get("max_size") or given.get("min_size", DEFAULT_POOL_SIZE)
    return size if isinstance(size, int) else None
