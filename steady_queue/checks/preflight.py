"""Preflight: everything that would keep a project's tasks from running, found at once and without starting anything."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from django.core.checks import ERROR
from django.db import connections
from django.utils.module_loading import autodiscover_modules

import steady_queue
from steady_queue.aio.process import startup
from steady_queue.aio.process.connections import DeadlineDriver
from steady_queue.checks.health import answer_of
from steady_queue.checks.installation import UNUSABLE, check_installation
from steady_queue.checks.project import Backends, check_pools, unknown_queues
from steady_queue.configuration import configured
from steady_queue.configuration import problems as configuration_problems
from steady_queue.db.aliases import is_in_memory, open_async, queue_alias
from steady_queue.errors import ConfigurationError
from steady_queue.recurring.definitions import wanted
from steady_queue.store.operations import charset
from steady_queue.store.operations.server import describe_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from django.core.checks import CheckMessage

    from steady_queue.configuration import Options

#: How long a database may take to answer, in seconds.
ANSWER_WITHIN = 10.0


class Problem(NamedTuple):
    text: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """What was looked at, and all that is wrong with it. Warnings keep nothing from running."""

    subjects: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def examine(
    options: Options | None = None, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> Findings:
    """Look at the configuration, the tasks, the backends and the databases; `options` are by default the project's.

    `more` are problems that were found before, of what the options were made of; `named` the queues that were asked
    for just now, where an unknown one is a mistake. In settings.py it may be one that is given up, and still emptied.
    """
    backends = Backends()
    database = _Database(backends)
    found = chain(
        map(Problem, more),
        _configuration(options, backends, named, in_one_loop),
        _tasks(options),
        _backends(backends),
        database.problems(),
    )
    return _findings(found, lambda: ("configuration", *database.subjects))


def at_start(
    options: Options, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> Findings:
    """What can be found before a process starts, without its database.

    The project's tasks are imported only if the start is refused anyway, to tell what is wrong with them, too: else the
    process that runs them does that.
    """
    backends = Backends()
    configuration = _configuration(options, backends, named, in_one_loop)
    found = list(chain(map(Problem, more), configuration, _backends(backends), _Database(backends).settings()))
    if not all(problem.is_warning for problem in found):
        found += _tasks(options)
    return _findings(found, lambda: ("configuration",))


def _findings(found: Iterable[Problem], subjects: Callable[[], tuple[str, ...]]) -> Findings:
    problems = list(dict.fromkeys(found))
    return Findings(
        subjects=subjects(),
        errors=tuple(problem.text for problem in problems if not problem.is_warning),
        warnings=tuple(problem.text for problem in problems if problem.is_warning),
    )


def report(
    options: Options | None = None, more: Sequence[str] = (), named: Sequence[str] = (), *, in_one_loop: bool = False
) -> tuple[int, list[str], list[str]]:
    """The exit status of the examination, the lines for stdout and those for stderr."""
    found = examine(options, more, named, in_one_loop=in_one_loop)
    complaints = [*(f"error: {text}" for text in found.errors), *(f"warning: {text}" for text in found.warnings)]
    if found.errors:
        return 1, [], complaints
    return 0, [f"Steady Queue {steady_queue.__version__}: {', '.join(found.subjects)}: all well"], complaints


def _configuration(
    options: Options | None, backends: Backends, named: Sequence[str], in_one_loop: bool
) -> Iterator[Problem]:
    try:
        options = options or configured()
    except ConfigurationError as error:
        yield Problem(str(error))
        return
    problems = list(configuration_problems(options))
    yield from map(Problem, problems)
    if not problems:
        for queue in unknown_queues(options, backends.queues()):
            yield Problem(f"{queue.text}; {queue.hint}", is_warning=queue.name not in named)
        yield from map(_told, check_pools(options, in_one_loop=in_one_loop))


def _tasks(options: Options | None) -> Iterator[Problem]:
    try:
        autodiscover_modules("tasks")
    except Exception as error:
        yield Problem(f"the tasks cannot be imported: {type(error).__name__}: {error}")
    try:
        options = options or configured()
    except ConfigurationError:
        return  # told of before
    if options.schedules and not any(options.malformed()):
        yield from map(Problem, wanted(options).problems())


def _backends(backends: Backends) -> Iterator[Problem]:
    yield from map(Problem, backends.broken)
    if not backends.ours and not backends.broken:
        yield Problem("no entry of TASKS has steady_queue.backend.SteadyQueueBackend as its BACKEND", True)
    for backend in backends.ours.values():
        yield from map(_told, backend.check())


def _told(message: CheckMessage) -> Problem:
    return Problem(f"{message.msg} {message.hint or ''}".strip(), message.level < ERROR)


class _Database:
    """The database of the queue, and those whose transactions its tasks wait for."""

    def __init__(self, backends: Backends) -> None:
        self.subjects: list[str] = []
        self._alias = queue_alias()
        named = [backend.commit_with for backend in backends.ours.values()]  # which may be anything
        self._waited_for = sorted({alias for alias in named if isinstance(alias, str) and alias != self._alias})

    def settings(self) -> Iterator[Problem]:
        """What is wrong with its settings."""
        yield from map(_told, check_installation())

    def problems(self) -> Iterator[Problem]:
        yield from self.settings()
        if not any(message.id in UNUSABLE for message in check_installation()):
            yield from self._queue()
        for alias in self._waited_for:
            # A project whose only databases have names of their own has a default one that is a dummy.
            if alias in connections and connections.settings[alias]["ENGINE"] != "django.db.backends.dummy":
                yield from _reach(alias)

    def _queue(self) -> Iterator[Problem]:
        if is_in_memory(self._alias):
            yield Problem(f"the database {self._alias!r} is in memory: no worker can reach it")
            return
        try:
            server, refusal, text = asyncio.run(_admission(self._alias))
        except Exception as error:  # of the driver, of the network, of its settings
            yield Problem(f"the database {self._alias!r} cannot be reached: {error or type(error).__name__}")
            return
        self.subjects.append(f"database {self._alias} ({server})")
        if refusal is not None:
            yield Problem(refusal)
            return
        if names := startup.known_migrations():
            self.subjects.append(f"schema {names[-1].partition('_')[0]}")
        if text is not None:
            yield Problem("; ".join(charset.describe_problem(self._alias, text)), is_warning=True)
        yield from _reach(self._alias)


async def _admission(alias: str) -> tuple[str, str | None, charset.TextColumnProblem | None]:
    """What the server is, why no process may work on it, and the columns that lose texts."""
    driver = DeadlineDriver(open_async(alias, size=1), ANSWER_WITHIN)
    try:
        refusal = await startup.refusal(driver, alias)
        text = None if refusal else await driver.run(charset.find_text_column_problem(driver.sql))
        return await driver.run(describe_server(driver.sql)), refusal, text
    finally:
        await driver.close()


def _reach(alias: str) -> Iterator[Problem]:
    """Whether Django's own connection comes about, which tasks and those who enqueue them use."""

    def connect() -> None:
        try:
            connections[alias].ensure_connection()
        finally:
            connections[alias].close()

    try:
        answer_of(connect, within=ANSWER_WITHIN)
    except Exception as error:
        yield Problem(f"Django cannot reach the database {alias!r}: {str(error).strip() or type(error).__name__}")
