"""Inspection: the system checks of the whole project, each told once whatever number of backends there are.

Pools: whether Django's own connection pools (PostgreSQL, OPTIONS["pool"]) have room for the tasks of a process.

The runtime has connections of its own beside them. From a pool come those that tasks use: one for each thread, and one
for each of the lanes that the ORM calls of async tasks share. A pool that is smaller makes tasks wait for each other,
and fail when they have waited for its timeout.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from django.apps import apps
from django.core.checks import Error, Warning
from django.db import connections

from steady_queue.aio.process.startup import known_migrations
from steady_queue.aio.worker.queues import expand
from steady_queue.backend import SteadyQueueBackend
from steady_queue.checks.installation import UNUSABLE, check_installation, check_tasks
from steady_queue.configuration import configured
from steady_queue.configuration import problems as configuration_problems
from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.errors import ConfigurationError, StoreError
from steady_queue.jobs.compat import task_backends
from steady_queue.store.operations.charset import describe_problem, find_text_column_problem
from steady_queue.store.operations.server import describe_schema_problem, find_applied_migrations

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from django.core.checks import CheckMessage

    from steady_queue.configuration import Options, Worker
    from steady_queue.store.drivers.django import DjangoDriver

#: What becomes of a schema that does not fit.
NO_START = "no process starts on it"


def check_project(**kwargs: Any) -> list[CheckMessage]:
    """Every problem of the installation and of settings.STEADY_QUEUE. Nothing is connected to."""
    if not apps.is_installed("steady_queue"):  # the backends say so
        return []
    return [*check_installation(), *check_tasks(), *_configuration()]


def check_schema(databases: Collection[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Whether the queue's database has the schema of this version, where Django was told to ask that database."""
    alias = queue_alias()
    # Before it begins, `migrate` asks as well; there the answer would only be in its way.
    is_migrating = sys.argv[1:2] == ["migrate"]
    if alias not in (databases or ()) or is_migrating:
        return []
    if any(message.id in UNUSABLE for message in check_installation()):
        return []
    driver = django_driver(alias)
    try:
        return list(_version(driver) or _text_columns(driver))
    except StoreError as error:
        return [_warning("W009", f"the schema of the database {alias!r} cannot be read: {error}", NO_START)]


def _version(driver: DjangoDriver) -> list[CheckMessage]:
    known = known_migrations()
    if known is None:
        return []
    found = driver.run(find_applied_migrations(driver.sql))
    problem = describe_schema_problem(driver.alias, found, known)
    if problem is None:
        return []
    text, _, hint = problem.partition("; ")
    return [_warning("W009", text, hint or NO_START)]


def _text_columns(driver: DjangoDriver) -> list[CheckMessage]:
    unfit_columns = driver.run(find_text_column_problem(driver.sql))
    return [] if unfit_columns is None else [_warning("W013", *describe_problem(driver.alias, unfit_columns))]


def _warning(number: str, text: str, hint: str) -> CheckMessage:
    """A warning, not an error: an error would make commands that migrate refuse to begin."""
    return Warning(f"{_sentence(text)}.", hint=_sentence(hint), id=f"steady_queue.{number}")


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _configuration() -> Iterator[CheckMessage]:
    try:
        options = configured()
        problems = list(configuration_problems(options))
    except ConfigurationError as error:
        problems = [str(error)]
    if problems:
        hint = "See STEADY_QUEUE, and what is assigned to steady_queue, in settings.py."
        yield from (Error(f"{problem}.", hint=hint, id="steady_queue.E010") for problem in problems)
        return
    for queue in unknown_queues(options, Backends().queues()):
        yield Warning(f"{queue.text}.", hint=_sentence(queue.hint), id="steady_queue.W007")
    yield from check_pools(options)


# -- parts that `steady_queue check` has as well ----------------------------------------------------------------------


class Backends:
    """The entries of TASKS that are ours, and why others cannot be used."""

    def __init__(self) -> None:
        self.ours: dict[str, SteadyQueueBackend] = {}
        self.broken: list[str] = []
        for alias in task_backends:
            try:
                backend = task_backends[alias]
            except Exception as error:
                self.broken.append(f"TASKS[{alias!r}] cannot be used: {error}")
                continue
            if isinstance(backend, SteadyQueueBackend):
                self.ours[alias] = backend

    def queues(self) -> list[str] | None:
        """The queues that tasks can be put into; None when that may be any."""
        if not self.ours or self.broken or not all(backend.queues for backend in self.ours.values()):
            return None
        return sorted(set().union(*(backend.queues for backend in self.ours.values())))


class UnknownQueue(NamedTuple):
    name: str
    text: str
    hint: str


def unknown_queues(options: Options, known: list[str] | None) -> Iterator[UnknownQueue]:
    """The queues that workers take from and into which no backend can put anything."""
    for number, worker in enumerate(options.workers):
        for name in (name.strip() for name in worker.queues):
            if "*" in name[:-1]:
                text = f"workers[{number}]: the star in {name!r} means nothing"
                yield UnknownQueue(name, text, "it may only end a prefix")
            elif known is not None and not (expand([name], known) if name.endswith("*") else name in known):
                close = get_close_matches(name.rstrip("*"), known, n=3, cutoff=0.5)
                hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {known}"
                yield UnknownQueue(
                    name, f"workers[{number}]: no backend in TASKS has a queue {name!r} in its QUEUES", hint
                )


def check_pools(options: Options, *, in_one_loop: bool = False) -> Iterator[CheckMessage]:
    """The pools of Django's connections that are too small for what runs."""
    for pool in small_pools(options, in_one_loop=in_one_loop):
        yield Warning(
            f"The pool of the database {pool.alias!r} has at most {pool.size} connections, but the tasks of one "
            f"process may use {pool.needed} at once.",
            hint=f"Set OPTIONS['pool'] = {{'max_size': {pool.needed}}} or more, or fewer threads and orm_lanes.",
            id="steady_queue.W008",
        )


#: What psycopg_pool opens when it is told nothing, and then never more.
LEAST = 4


class SmallPool(NamedTuple):
    alias: str
    size: int
    needed: int


def small_pools(options: Options, *, in_one_loop: bool = False) -> Iterator[SmallPool]:
    """The pools of DATABASES that are smaller than what one process of ours may take from them."""
    needed = connections_needed(options, in_one_loop=in_one_loop)
    for alias in connections:
        size = pool_size(connections.settings[alias])
        if size is not None and size < needed:
            yield SmallPool(alias, size, needed)


def connections_needed(options: Options, *, in_one_loop: bool = False) -> int:
    """How many of Django's connections to one database the tasks of a process may use at once."""
    processes = [options.workers] if in_one_loop else [[worker] for worker in options.workers]
    return max(map(_of_process, processes), default=0)


def _of_process(workers: Sequence[Worker]) -> int:
    lanes = max((worker.orm_lanes for worker in workers if worker.coroutines), default=0)
    return sum(worker.threads for worker in workers) + lanes


def pool_size(settings: Mapping[str, Any]) -> int | None:
    """How many connections the pool of a database may open; None without a pool, or one whose size is nonsense."""
    pool = settings.get("OPTIONS", {}).get("pool")
    if not pool or settings.get("ENGINE") == "django.db.backends.oracle":
        return None
    given = pool if isinstance(pool, dict) else {}
    size = given.get("max_size") or given.get("min_size", LEAST)
    return size if isinstance(size, int) else None
