"""The options of what runs: `STEADY_QUEUE = Configuration.Options(...)` in settings.py, and their validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from os import PathLike
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import steady_queue
from steady_queue.errors import ConfigurationError
from steady_queue.option_checks import (
    check_bool,
    check_count,
    check_duration,
    check_interval,
    check_queues,
    find_non_string_keys,
)
from steady_queue.store.queue_selection import QueueSelection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Actor = TypeVar("_Actor", "Worker", "Dispatcher", "RecurringTask", "Options")

#: The default of `process_alive_threshold`.
DEFAULT_ALIVE_THRESHOLD = timedelta(minutes=5)
#: A larger number of threads or processes is a typing error.
MAX_COUNT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Claims ready tasks from queues and runs them.

    It runs up to `coroutines` async tasks in its event loop and up to `threads` sync tasks in threads, in each of its
    `processes`. `queues` lists names, prefixes such as `mail*`, or `*` for all queues, in the order in which the worker
    serves them. A single string is a list of one, and None means all queues. `exclude_queues` lists names and prefixes
    of queues that the worker does not serve although `queues` matches them.
    """

    queues: Sequence[str] | str = ("*",)
    exclude_queues: Sequence[str] | str = ()
    coroutines: int = 100
    threads: int = 3
    subprocesses: int = 0
    processes: int = 1
    polling_interval: timedelta = timedelta(seconds=0.1)
    #: The number of threads, each with database connections, that the ORM calls of all async tasks share.
    orm_lanes: int = 8

    def __post_init__(self) -> None:
        given: object = self.queues
        if given is None or isinstance(given, str):
            object.__setattr__(self, "queues", ("*" if given is None else given,))
        excluded: object = self.exclude_queues
        if excluded is None or isinstance(excluded, str):
            object.__setattr__(self, "exclude_queues", () if excluded is None else (excluded,))

    @property
    def selection(self) -> QueueSelection:
        return QueueSelection.of(self.queues, self.exclude_queues)

    def problems(self) -> Iterator[str]:
        found = [*check_queues("queues", self.queues), *check_queues("exclude_queues", self.exclude_queues)]
        yield from found
        if not found and not self.queues:
            yield f"queues must be a list of queue names, not {self.queues!r}"
        elif not found and self.selection.is_empty:
            yield (
                f"exclude_queues ({', '.join(self.selection.excluded)}) excludes every queue of the worker"
                f" ({', '.join(self.selection.patterns)}): it could not run any task; exclude fewer queues"
            )
        yield from check_count("coroutines", self.coroutines, 0)
        yield from check_count("threads", self.threads, 0, MAX_COUNT)
        yield from check_count("processes", self.processes, 1, MAX_COUNT)
        yield from check_count("orm_lanes", self.orm_lanes, 1, MAX_COUNT)
        if self.coroutines == 0 and self.threads == 0:
            yield "coroutines and threads are both 0: the worker could not run any task"
        if self.subprocesses != 0:
            yield "subprocesses must be 0: they are not supported yet"
        yield from check_interval("polling_interval", self.polling_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Moves scheduled tasks that are due to their queues."""

    polling_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 500
    concurrency_maintenance: bool = True
    concurrency_maintenance_interval: timedelta = timedelta(seconds=600)

    def problems(self) -> Iterator[str]:
        yield from check_bool("concurrency_maintenance", self.concurrency_maintenance)
        yield from check_count("batch_size", self.batch_size, 1, 100_000)
        yield from check_interval("polling_interval", self.polling_interval)
        yield from check_interval("concurrency_maintenance_interval", self.concurrency_maintenance_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringTask:
    """A recurring task, named by its path because settings.py cannot import tasks. Elsewhere, use `@recurring`."""

    key: str
    class_name: str
    schedule: str
    #: A list of positional arguments, or a dictionary with `args` and `kwargs`; all values must be plain JSON.
    arguments: Sequence[Any] | Mapping[str, Any] | None = None
    queue_name: str | None = None
    priority: int | None = None
    description: str | None = None
    time_zone: str | None = None
    catch_up: str = "none"
    command: str | None = None
    skip_if_unfinished: bool = False

    @property
    def args(self) -> Sequence[Any]:
        given = self.arguments
        return (given.get("args") or ()) if isinstance(given, Mapping) else (given or ())

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return (self.arguments.get("kwargs") or {}) if isinstance(self.arguments, Mapping) else {}

    def type_problems(self) -> Iterator[str]:
        """Wrong types, because of which the task cannot be looked up."""
        for what in ("key", "class_name", "schedule"):
            if not isinstance(getattr(self, what), str):
                yield f"{what} must be a string, not {getattr(self, what)!r}"

    def problems(self) -> Iterator[str]:
        """Problems that are found without importing the task."""
        if self.command is not None:
            yield "command is not supported: move its code into a task, and name the task in class_name"
        given = self.arguments
        if isinstance(given, Mapping) and (unknown := set(given) - {"args", "kwargs"}):
            yield f"arguments may only have the keys 'args' and 'kwargs', not {', '.join(sorted(map(repr, unknown)))}"
        elif given is not None and not isinstance(given, (list, tuple, Mapping)):
            yield f"arguments must be a list, or a dictionary with 'args' and 'kwargs', not {given!r}"
        else:
            try:
                json.dumps(given, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                yield f"arguments must be plain JSON in settings.py ({error}); use @recurring for other values"
            else:
                for key in find_non_string_keys(given):
                    yield (
                        f"arguments has a dictionary with the key {key!r}, but keys of plain JSON are strings;"
                        " use @recurring for other values"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that one installation runs. Omitted options have their defaults."""

    workers: Sequence[Worker] = field(default_factory=lambda: [Worker()])
    dispatchers: Sequence[Dispatcher] = field(default_factory=lambda: [Dispatcher()])
    #: The recurring tasks; None for those that the code declares with `@recurring`.
    recurring_tasks: Sequence[RecurringTask] | None = None
    only_work: bool = False
    skip_recurring: bool = False
    #: A process is replaced after this number of tasks, or when it uses this number of MiB of memory.
    max_tasks: int | None = None
    max_rss: int | None = None
    #: A process is replaced when so many of its threads run tasks that have timed out; None: all threads of a worker.
    max_stuck_threads: int | None = None
    #: The format of log lines, "text" or "json", if the project has not configured logging.
    log_format: str = "text"

    def type_problems(self) -> Iterator[str]:
        """Wrong types, because of which nothing else can be validated."""
        parts: list[tuple[str, object, type[object]]] = [
            ("workers", self.workers, Worker),
            ("dispatchers", self.dispatchers, Dispatcher),
            ("recurring_tasks", [] if self.recurring_tasks is None else self.recurring_tasks, RecurringTask),
        ]
        for what, actors, kind in parts:
            if not isinstance(actors, (list, tuple)):
                yield f"{what} must be a list, not {actors!r}"
            else:
                for number, actor in enumerate(actors):
                    if not isinstance(actor, kind):
                        yield f"{what}[{number}] must be Configuration.{kind.__name__}(...), not {actor!r}"
                    elif isinstance(actor, RecurringTask):
                        yield from (f"{what}[{number}]: {problem}" for problem in actor.type_problems())

    def problems(self) -> Iterator[str]:
        """All problems, not only the first."""
        if type_problems := list(self.type_problems()):
            yield from type_problems
            return
        if not self.workers and (self.only_work or not self.dispatchers) and not self.schedules:
            yield "there is nothing to run: no workers and no dispatchers"
        for what in ("workers", "dispatchers", "recurring_tasks"):
            for number, part in enumerate(getattr(self, what) or ()):
                yield from (f"{what}[{number}]: {problem}" for problem in part.problems())
        for what in ("only_work", "skip_recurring"):
            yield from check_bool(what, getattr(self, what))
        for what in ("max_tasks", "max_rss", "max_stuck_threads"):
            if getattr(self, what) is not None:
                yield from check_count(what, getattr(self, what), 1)
        if self.log_format not in ("text", "json"):
            yield f"log_format must be 'text' or 'json', not {self.log_format!r}"

    @property
    def schedules(self) -> bool:
        """Whether recurring tasks are enqueued."""
        return not (self.only_work or self.skip_recurring)

    # -- the options of each process ----------------------------------------------------------------------------------

    def per_process(self) -> list[Options]:
        """The options of each child of a supervisor: a worker or a dispatcher; the first dispatcher also schedules."""
        workers = [self._only(worker) for worker in self.workers for _ in range(worker.processes)]
        if self.only_work:
            return workers
        others = [replace(self, workers=[], dispatchers=[dispatcher]) for dispatcher in self.dispatchers]
        if self.schedules and not others:
            others = [replace(self, workers=[])]
        return [*workers, *others[:1], *(replace(other, skip_recurring=True) for other in others[1:])]

    def additional_processes(self) -> list[Options]:
        """The options of the children next to a process that runs everything once: more copies of its workers."""
        return [self._only(worker) for worker in self.workers for _ in range(worker.processes - 1)]

    def _only(self, worker: Worker) -> Options:
        # The dispatchers stay but do not run: maintenance reads from them whether to look for blocked tasks.
        return replace(self, workers=[replace(worker, processes=1)], only_work=True)

    def to_dict(self) -> dict[str, Any]:
        """The options as values for JSON; `from_dict` is the inverse."""
        values = asdict(self)
        for actor in (*values["workers"], *values["dispatchers"]):
            actor.update({name: v.total_seconds() for name, v in actor.items() if isinstance(v, timedelta)})
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Options:
        workers = [_build(Worker, worker) for worker in values["workers"]]
        dispatchers = [_build(Dispatcher, dispatcher) for dispatcher in values["dispatchers"]]
        recurs = values.get("recurring_tasks")
        recurring = None if recurs is None else [_build(RecurringTask, task) for task in recurs]
        return _build(cls, {**values, "workers": workers, "dispatchers": dispatchers, "recurring_tasks": recurring})


class Configuration:
    """The namespace of the option classes for settings.py."""

    Options = Options
    Worker = Worker
    Dispatcher = Dispatcher
    RecurringTask = RecurringTask


def read_options() -> Options:
    """The options in settings.STEADY_QUEUE, or the defaults."""
    from django.conf import settings  # settings.py itself imports this module

    options = getattr(settings, "STEADY_QUEUE", None)
    if options is None:
        return Options()
    if not isinstance(options, Options):
        raise ConfigurationError(
            f"STEADY_QUEUE must be Configuration.Options(...), not {options!r:.100}: "
            "from steady_queue.configuration import Configuration"
        )
    return options


def alive_threshold() -> timedelta:
    """The time after the last heartbeat when a process is considered dead: the setting, but at least two heartbeats.

    So a project may set a longer heartbeat interval alone. A threshold that the project has set to less than two
    heartbeats is refused.
    """
    alive, interval = steady_queue.process_alive_threshold, steady_queue.process_heartbeat_interval
    return max(alive, 2 * interval) if alive == DEFAULT_ALIVE_THRESHOLD else alive


def problems(options: Options) -> Iterator[str]:
    """All problems of the options and of the settings in `steady_queue`."""
    yield from options.problems()
    interval, alive = steady_queue.process_heartbeat_interval, steady_queue.process_alive_threshold
    invalid = [
        *check_interval("process_heartbeat_interval", interval),
        *check_interval("process_alive_threshold", alive),
    ]
    yield from invalid
    yield from check_interval("default_concurrency_control_period", steady_queue.default_concurrency_control_period)
    yield from check_duration("shutdown_timeout", steady_queue.shutdown_timeout)
    yield from check_interval("orm_thread_timeout", steady_queue.orm_thread_timeout)
    for what in ("clear_finished_jobs_after", "clear_failed_jobs_after", "statistics_retention"):
        if (duration := getattr(steady_queue, what)) is not None:
            yield from check_duration(what, duration, " or None")
    yield from check_bool("preserve_finished_jobs", steady_queue.preserve_finished_jobs)
    yield from check_bool("notify", steady_queue.notify)
    yield from check_bool("check_arguments", steady_queue.check_arguments)
    version: object = steady_queue.code_version
    if not isinstance(version, (str, NoneType)) or (isinstance(version, str) and len(version) > 200):
        yield f"code_version must be a string of at most 200 characters or None, not {version!r:.100}"
    pidfile: object = steady_queue.supervisor_pidfile
    if not isinstance(pidfile, (str, PathLike, NoneType)):
        yield f"supervisor_pidfile must be a path or None, not {pidfile!r}"
    if not invalid and alive_threshold() < 2 * interval:
        yield f"process_alive_threshold ({alive}) must be at least twice process_heartbeat_interval ({interval})"


def _build(kind: type[_Actor], values: Mapping[str, Any]) -> _Actor:
    known = {field.name for field in fields(kind)}
    if unknown := values.keys() - known:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    intervals = {name: timedelta(seconds=values[name]) for name in values if name.endswith("_interval")}
    return kind(**{**values, **intervals})
