"""What runs: `STEADY_QUEUE = Configuration.Options(...)` in settings.py."""

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
from steady_queue.store.names import LONGEST_TIMEDELTA, NAME_LENGTH, explain_unstorable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Actor = TypeVar("_Actor", "Worker", "Dispatcher", "RecurringTask", "Options")

#: Of `process_alive_threshold`.
DEFAULT_THRESHOLD = timedelta(minutes=5)
#: More threads or processes than that are a slip of the keyboard.
MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Takes ready tasks from queues and runs them.

    It runs up to `coroutines` async tasks in its event loop and up to `threads` sync functions in threads, each in
    `processes` processes. `queues` are taken in order: a name, a `prefix*`, or `*` for all. One may stand without a
    list; None is all.
    """

    queues: Sequence[str] | str = ("*",)
    coroutines: int = 100
    threads: int = 3
    subprocesses: int = 0
    processes: int = 1
    polling_interval: timedelta = timedelta(seconds=0.1)
    #: Threads, and so database connections, that the ORM calls of all async tasks share.
    orm_lanes: int = 8

    def __post_init__(self) -> None:
        given: object = self.queues
        if given is None or isinstance(given, str):
            object.__setattr__(self, "queues", ("*" if given is None else given,))

    def problems(self) -> Iterator[str]:
        if not isinstance(self.queues, (list, tuple)) or not self.queues:
            yield f"queues must be a list of names, not {self.queues!r}"
        else:
            for name in self.queues:
                if not isinstance(name, str) or not name.strip() or explain_unstorable(name, NAME_LENGTH):
                    yield f"queues has a name that cannot be one: {name!r}"
        yield from _count("coroutines", self.coroutines, 0)
        yield from _count("threads", self.threads, 0, MOST)
        yield from _count("processes", self.processes, 1, MOST)
        yield from _count("orm_lanes", self.orm_lanes, 1, MOST)
        if self.coroutines == 0 and self.threads == 0:
            yield "coroutines and threads are both 0: it could run nothing"
        if self.subprocesses != 0:
            yield "subprocesses are not supported yet: it must be 0"
        yield from _interval("polling_interval", self.polling_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Moves scheduled tasks whose time has come to their queues."""

    polling_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 500
    concurrency_maintenance: bool = True
    concurrency_maintenance_interval: timedelta = timedelta(seconds=600)

    def problems(self) -> Iterator[str]:
        yield from _switch("concurrency_maintenance", self.concurrency_maintenance)
        yield from _count("batch_size", self.batch_size, 1, 100_000)
        yield from _interval("polling_interval", self.polling_interval)
        yield from _interval("concurrency_maintenance_interval", self.concurrency_maintenance_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringTask:
    """A recurring task named by its path, for settings.py, which cannot import tasks. Elsewhere, use `@recurring`."""

    key: str
    class_name: str
    schedule: str
    #: A list of positional arguments, or a dictionary with `args` and `kwargs`; all of them plain JSON.
    arguments: Sequence[Any] | Mapping[str, Any] | None = None
    queue_name: str | None = None
    priority: int | None = None
    description: str | None = None
    time_zone: str | None = None
    catch_up: str = "none"
    command: str | None = None

    @property
    def args(self) -> Sequence[Any]:
        given = self.arguments
        return (given.get("args") or ()) if isinstance(given, Mapping) else (given or ())

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return (self.arguments.get("kwargs") or {}) if isinstance(self.arguments, Mapping) else {}

    def malformed(self) -> Iterator[str]:
        """What keeps its task from being looked for."""
        for what in ("key", "class_name", "schedule"):
            if not isinstance(getattr(self, what), str):
                yield f"{what} must be a text, not {getattr(self, what)!r}"

    def problems(self) -> Iterator[str]:
        """What can be told without importing the task."""
        if self.command is not None:
            yield "a command cannot recur, only a task can: put what it does into a task, and name that in class_name"
        given = self.arguments
        if isinstance(given, Mapping) and (unknown := set(given) - {"args", "kwargs"}):
            yield f"arguments has {', '.join(sorted(map(repr, unknown)))}; a dictionary has 'args' and 'kwargs' only"
        elif given is not None and not isinstance(given, (list, tuple, Mapping)):
            yield f"arguments must be a list, or a dictionary with 'args' and 'kwargs', not {given!r}"
        else:
            try:
                json.dumps(given, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                yield f"arguments must be plain JSON in settings.py ({error}): use @recurring for others"
            else:
                for key in _odd_keys(given):
                    yield (
                        f"arguments has a dictionary with the key {key!r}; the keys of plain JSON are texts:"
                        " use @recurring for others"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that one installation runs. What is left out runs with its defaults."""

    workers: Sequence[Worker] = field(default_factory=lambda: [Worker()])
    dispatchers: Sequence[Dispatcher] = field(default_factory=lambda: [Dispatcher()])
    #: What recurs; None for what the code says with `@recurring`.
    recurring_tasks: Sequence[RecurringTask] | None = None
    only_work: bool = False
    skip_recurring: bool = False
    #: A process is replaced when it has ended so many tasks, or has so many MiB of memory.
    max_tasks: int | None = None
    max_rss: int | None = None
    #: How log lines look where the project has not configured logging: "text" or "json".
    log_format: str = "text"

    def malformed(self) -> Iterator[str]:
        """What is not even of the right kind, so that nothing else can be asked of it."""
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
                        yield from (f"{what}[{number}]: {problem}" for problem in actor.malformed())

    def problems(self) -> Iterator[str]:
        """Everything that is wrong, not only the first thing."""
        if malformed := list(self.malformed()):
            yield from malformed
            return
        if not self.workers and (self.only_work or not self.dispatchers) and not self.schedules:
            yield "there is nothing to run: no workers and no dispatchers"
        for what in ("workers", "dispatchers", "recurring_tasks"):
            for number, part in enumerate(getattr(self, what) or ()):
                yield from (f"{what}[{number}]: {problem}" for problem in part.problems())
        for what in ("only_work", "skip_recurring"):
            yield from _switch(what, getattr(self, what))
        for what in ("max_tasks", "max_rss"):
            if getattr(self, what) is not None:
                yield from _count(what, getattr(self, what), 1)
        if self.log_format not in ("text", "json"):
            yield f"log_format must be 'text' or 'json', not {self.log_format!r}"

    @property
    def schedules(self) -> bool:
        """Whether recurring tasks are enqueued."""
        return not (self.only_work or self.skip_recurring)

    # -- one part of it for each process ------------------------------------------------------------------------------

    def per_process(self) -> list[Options]:
        """What each process of a supervisor runs: a worker or a dispatcher, the first of which schedules too."""
        workers = [self._only(worker) for worker in self.workers for _ in range(worker.processes)]
        if self.only_work:
            return workers
        others = [replace(self, workers=[], dispatchers=[dispatcher]) for dispatcher in self.dispatchers]
        if self.schedules and not others:
            others = [replace(self, workers=[])]
        return [*workers, *others[:1], *(replace(other, skip_recurring=True) for other in others[1:])]

    def beside_one_loop(self) -> list[Options]:
        """What the processes beside an event loop that runs everything once run: the other copies of its workers."""
        return [self._only(worker) for worker in self.workers for _ in range(worker.processes - 1)]

    def _only(self, worker: Worker) -> Options:
        # The dispatchers stay, and do not run: maintenance asks them whether it is to look for blocked tasks.
        return replace(self, workers=[replace(worker, processes=1)], only_work=True)

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold; `from_dict` makes the same options of it."""
        values = asdict(self)
        for actor in (*values["workers"], *values["dispatchers"]):
            actor.update({name: v.total_seconds() for name, v in actor.items() if isinstance(v, timedelta)})
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Options:
        workers = [_made(Worker, worker) for worker in values["workers"]]
        dispatchers = [_made(Dispatcher, dispatcher) for dispatcher in values["dispatchers"]]
        recurs = values.get("recurring_tasks")
        recurring = None if recurs is None else [_made(RecurringTask, task) for task in recurs]
        return _made(cls, {**values, "workers": workers, "dispatchers": dispatchers, "recurring_tasks": recurring})


class Configuration:
    """The names under which settings.py spells its options."""

    Options = Options
    Worker = Worker
    Dispatcher = Dispatcher
    RecurringTask = RecurringTask


def configured() -> Options:
    """The options in settings.STEADY_QUEUE, or the defaults."""
    from django.conf import settings  # settings.py itself imports this module

    options = getattr(settings, "STEADY_QUEUE", None)
    if options is None:
        return Options()
    if not isinstance(options, Options):
        raise ConfigurationError(f"STEADY_QUEUE must be Configuration.Options(...), not {options!r:.100}")
    return options


def alive_threshold() -> timedelta:
    """How long after its last heartbeat a process counts as dead: the setting, and at least two heartbeats.

    So a longer interval may be set alone. A threshold that was chosen, and leaves no time for two, is refused.
    """
    alive, interval = steady_queue.process_alive_threshold, steady_queue.process_heartbeat_interval
    return max(alive, 2 * interval) if alive == DEFAULT_THRESHOLD else alive


def problems(options: Options) -> Iterator[str]:
    """Everything that is wrong with the options and with the settings that rule how processes watch each other."""
    yield from options.problems()
    interval, alive = steady_queue.process_heartbeat_interval, steady_queue.process_alive_threshold
    wrong = [*_interval("process_heartbeat_interval", interval), *_interval("process_alive_threshold", alive)]
    yield from wrong
    yield from _interval("default_concurrency_control_period", steady_queue.default_concurrency_control_period)
    yield from _span("shutdown_timeout", steady_queue.shutdown_timeout)
    yield from _interval("orm_thread_timeout", steady_queue.orm_thread_timeout)
    for what in ("clear_finished_jobs_after", "clear_failed_jobs_after"):
        if (span := getattr(steady_queue, what)) is not None:
            yield from _span(what, span, " or None")
    yield from _switch("preserve_finished_jobs", steady_queue.preserve_finished_jobs)
    pidfile: object = steady_queue.supervisor_pidfile
    if not isinstance(pidfile, (str, PathLike, NoneType)):
        yield f"supervisor_pidfile must be a path or None, not {pidfile!r}"
    if not wrong and alive_threshold() < 2 * interval:
        yield f"process_alive_threshold ({alive}) must be at least twice process_heartbeat_interval ({interval})"


def _count(what: str, value: object, least: int, most: int | None = None) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        yield f"{what} must be a whole number of at least {least}, not {value!r}"
    elif most is not None and value > most:
        yield f"{what} must be at most {most:,}, not {value:,}"


def _switch(what: str, value: object) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{what} must be True or False, not {value!r}"


def _interval(what: str, value: object) -> Iterator[str]:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        yield f"{what} must be a timedelta greater than zero, not {value!r}"
    elif value > LONGEST_TIMEDELTA:
        yield f"{what} must be a timedelta of at most {LONGEST_TIMEDELTA.days:,} days, not {value!r}"


def _span(what: str, value: object, otherwise: str = "") -> Iterator[str]:
    if not isinstance(value, timedelta) or value < timedelta(0):
        yield f"{what} must be a timedelta of at least zero{otherwise}, not {value!r}"
    elif value > LONGEST_TIMEDELTA:
        yield f"{what} must be a timedelta of at most {LONGEST_TIMEDELTA.days:,} days{otherwise}, not {value!r}"


def _odd_keys(value: object) -> Iterator[object]:
    """The keys in here that JSON would make texts of."""
    if isinstance(value, Mapping):
        yield from (key for key in value if not isinstance(key, str))
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ():
        yield from _odd_keys(part)


def _made(kind: type[_Actor], values: Mapping[str, Any]) -> _Actor:
    known = {field.name for field in fields(kind)}
    if unknown := values.keys() - known:
        raise ValueError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    spans = {name: timedelta(seconds=values[name]) for name in values if name.endswith("_interval")}
    return kind(**{**values, **spans})
