"""`manage.py steady_queue check`: finds everything that prevents the project's tasks from running; starts nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.core.checks import ERROR
from django.db import connections
from django.utils.module_loading import autodiscover_modules

import steady_queue
from steady_queue.aio.deadline_driver import DeadlineDriver
from steady_queue.aio.process import startup
from steady_queue.checks.distribution import check_distribution
from steady_queue.checks.health import call_with_timeout
from steady_queue.checks.installation import can_connect, check_installation
from steady_queue.checks.project import Backends, check_pools, check_queues, check_transactional
from steady_queue.configuration import problems as configuration_problems
from steady_queue.configuration import read_options
from steady_queue.db.aliases import is_in_memory, open_async, queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.recurring.definitions import collect_recurrences
from steady_queue.store.operations.database import charset
from steady_queue.store.operations.database.server import describe_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from django.core.checks import CheckMessage

    from steady_queue.configuration import Options

#: The time in which a database has to reply.
ANSWER_TIMEOUT_SECONDS = 10.0


class Problem(NamedTuple):
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """What was checked, and all problems. A process starts in spite of warnings."""

    subjects: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def examine(
    options: Options | None = None, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> PreflightResult:
    """Check the options (by default those of settings.py), the tasks, the backends and the databases.

    `more` are problems that were found earlier, while the options were read. `named` are the queues of the command line
    or the environment, where an unknown queue is an error. In settings.py it is a warning: a worker may still empty a
    queue that the project no longer uses.
    """
    backends = Backends()
    subjects = ["configuration"]
    found = [
        *map(Problem, more),
        *map(_from_message, check_distribution()),
        *_check_configuration(options, backends, named, in_one_loop),
        *_check_tasks(options),
        *_check_backends(backends),
        *_check_databases(backends, subjects),
    ]
    return _result(found, subjects)


def at_start(
    options: Options, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> PreflightResult:
    """Check what can be checked before a process starts, without the database.

    The tasks are imported only if there is an error, to report their problems as well. Otherwise the process that runs
    the tasks imports them.
    """
    backends = Backends()
    found = [
        *map(Problem, more),
        *map(_from_message, check_distribution()),
        *_check_configuration(options, backends, named, in_one_loop),
        *_check_backends(backends),
        *map(_from_message, check_installation()),
    ]
    if not all(problem.is_warning for problem in found):
        found += _check_tasks(options)
    return _result(found, ["configuration"])


def report(
    options: Options | None = None, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> tuple[int, list[str], list[str]]:
    """The exit status of `examine`, the lines for stdout and the lines for stderr."""
    found = examine(options, more, named, in_one_loop=in_one_loop)
    problems = [*(f"error: {text}" for text in found.errors), *(f"warning: {text}" for text in found.warnings)]
    if found.errors:
        return 1, [], problems
    return 0, [f"Steady Queue {steady_queue.__version__}: {', '.join(found.subjects)}: no errors"], problems


def _result(found: Iterable[Problem], subjects: Iterable[str]) -> PreflightResult:
    problems = list(dict.fromkeys(found))
    return PreflightResult(
        subjects=tuple(subjects),
        errors=tuple(problem.text for problem in problems if not problem.is_warning),
        warnings=tuple(problem.text for problem in problems if problem.is_warning),
    )


def _from_message(message: CheckMessage) -> Problem:
    return Problem(f"{message.msg} {message.hint or ''}".strip(), message.level < ERROR)


def _check_configuration(
    options: Options | None, backends: Backends, named: Sequence[str], in_one_loop: bool
) -> Iterator[Problem]:
    try:
        options = options or read_options()
    except ConfigurationError as error:
        yield Problem(str(error))
        return
    problems = list(configuration_problems(options))
    yield from map(Problem, problems)
    if not problems:
        for name, message in check_queues(options, backends.queues()):
            yield _from_message(message)._replace(is_warning=name not in named)
        yield from map(_from_message, check_pools(options, in_one_loop=in_one_loop))


def _check_tasks(options: Options | None) -> Iterator[Problem]:
    try:
        autodiscover_modules("tasks")
    except Exception as error:
        yield Problem(f"the tasks cannot be imported: {type(error).__name__}: {error}")
    yield from map(_from_message, check_transactional())
    try:
        options = options or read_options()
    except ConfigurationError:
        return  # reported by _check_configuration
    if options.schedules and not any(options.type_problems()):
        yield from map(Problem, collect_recurrences(options).problems())


def _check_backends(backends: Backends) -> Iterator[Problem]:
    yield from map(Problem, backends.broken)
    if not backends.ours and not backends.broken:
        yield Problem("no entry in TASKS has steady_queue.backend.SteadyQueueBackend as its BACKEND", True)
    for backend in backends.ours.values():
        yield from map(_from_message, backend.check())


def _check_databases(backends: Backends, subjects: list[str]) -> Iterator[Problem]:
    """The problems of the queue's database and of those whose commits its tasks wait for; adds to `subjects`."""
    alias = queue_alias()
    messages = check_installation()
    yield from map(_from_message, messages)
    if can_connect(messages):
        yield from _check_server(alias, subjects)
    awaited = [backend.commit_with for backend in backends.ours.values()]  # a setting, so it may have any type
    for name in sorted({name for name in awaited if isinstance(name, str) and name != alias}):
        # In a project whose databases all have other names, Django makes the default one a dummy.
        if name in connections and connections.settings[name]["ENGINE"] != "django.db.backends.dummy":
            yield from _check_connection(name)


def _check_server(alias: str, subjects: list[str]) -> Iterator[Problem]:
    """The problems of the queue's database: server, schema, columns, connections."""
    if is_in_memory(alias):
        yield Problem(f"the database {alias!r} is in memory: no worker can reach it")
        return
    try:
        server, start_problem, text = asyncio.run(_inspect_server(alias))
    except Exception as error:  # of the driver, of the network, of its settings
        yield Problem(f"the database {alias!r} cannot be reached: {error or type(error).__name__}")
        return
    subjects.append(f"database {alias} ({server})")
    if start_problem is not None:
        yield Problem(start_problem)
        return
    if names := startup.known_migrations():
        subjects.append(f"schema {names[-1].partition('_')[0]}")
    if text is not None:
        yield Problem("; ".join(charset.describe_text_columns(alias, text)), is_warning=True)
    yield from _check_connection(alias)


async def _inspect_server(alias: str) -> tuple[str, str | None, charset.TextColumnProblem | None]:
    """The server's version, why processes cannot use it, and the columns that cannot store all strings."""
    driver = DeadlineDriver(open_async(alias, size=1), ANSWER_TIMEOUT_SECONDS)
    try:
        start_problem = await startup.find_start_problem(driver, alias)
        text = None if start_problem else await driver.run(charset.find_text_column_problem(driver.sql))
        return await driver.run(describe_server(driver.sql)), start_problem, text
    finally:
        await driver.close()


def _check_connection(alias: str) -> Iterator[Problem]:
    """Whether Django can connect: tasks, and code that enqueues them, use Django's connections."""

    def connect() -> None:
        try:
            connections[alias].ensure_connection()
        finally:
            connections[alias].close()

    try:
        call_with_timeout(connect, timeout_seconds=ANSWER_TIMEOUT_SECONDS)
    except Exception as error:
        yield Problem(f"Django cannot connect to the database {alias!r}: {str(error).strip() or type(error).__name__}")
