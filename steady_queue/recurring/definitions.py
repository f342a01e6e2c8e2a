"""Recurring tasks in the code: the decorator `@recurring`, and the checks of its options."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from django.conf import settings

import steady_queue
from steady_queue import arguments
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import Task, task_backends
from steady_queue.jobs.definition.signatures import check_call
from steady_queue.jobs.definition.task import SteadyQueueTask
from steady_queue.jobs.registry import registry
from steady_queue.recurring import schedule
from steady_queue.recurring.catch_up import POLICIES
from steady_queue.store.names import NAME_LENGTH, explain_unstorable
from steady_queue.store.operations.recurring.entries import NewEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from steady_queue.configuration import Options
    from steady_queue.recurring.schedule import Schedule

P = ParamSpec("P")
T = TypeVar("T")
CatchUp = Literal["none", "last", "all"]

MAX_ZONE_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A recurring task as the code or the settings define it; not checked yet."""

    task: Task[..., Any]
    key: str
    schedule: str | None = None
    every: timedelta | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue_name: str | None = None
    priority: int | None = None
    description: str = ""
    time_zone: str | None = None
    catch_up: str = "none"
    skip_if_unfinished: bool = False

    def entry(self) -> NewEntry:
        """Return the entry to store, or raise ConfigurationError with every problem."""
        if found := list(self.problems()):
            raise ConfigurationError("; ".join(found))
        queue_name, priority = self._options()
        return NewEntry(
            task_key=self.key,
            task_path=self.task.module_path,
            schedule=self._ticks().text,
            time_zone=self.time_zone,
            catch_up=self.catch_up,
            arguments=arguments.dumps(self.args, self.kwargs),
            queue_name=queue_name,
            priority=priority,
            description=self.description,
            skip_if_unfinished=self.skip_if_unfinished,
        )

    def _options(self) -> tuple[str | None, int | None]:
        """Return the queue and priority to store: None where they are those of the task at its path."""
        task, registered = self.task, registry.resolve(self.task.module_path)
        queue_name, priority = self.queue_name, self.priority
        if queue_name is None and task.queue_name != registered.queue_name:
            queue_name = task.queue_name
        if priority is None and task.priority != registered.priority:
            priority = task.priority
        return queue_name, priority

    def problems(self) -> Iterator[str]:
        """Return every problem of the definition."""
        checks = (self._check_key, self._check_schedule, self._check_task, self._check_arguments)
        for check in checks:
            try:
                check()
            except Exception as error:  # the checks call code of the project
                yield f"recurring task {self.key!r:.100}: {error}"

    def _check_key(self) -> None:
        if not isinstance(self.key, str) or not self.key:
            raise ConfigurationError("the key must be a string that is not empty")
        if not isinstance(self.description, str):
            raise ConfigurationError(f"the description must be a string, not {type(self.description).__name__}")
        for what, text, length in (
            ("key", self.key, NAME_LENGTH),
            ("description", self.description, len(self.description)),
        ):
            if reason := explain_unstorable(text, length):
                raise ConfigurationError(f"the {what} {reason}")

    def _check_schedule(self) -> None:
        if self.catch_up not in POLICIES:
            raise ConfigurationError(f"catch_up must be one of {', '.join(POLICIES)}, not {self.catch_up!r}")
        if reason := explain_unstorable(self._ticks().text, NAME_LENGTH):
            raise ConfigurationError(f"the schedule {reason}")
        if self.time_zone is not None and len(self.time_zone) > MAX_ZONE_LENGTH:
            raise ConfigurationError(f"the name of the time zone has more than {MAX_ZONE_LENGTH} characters")

    def _ticks(self) -> Schedule:
        if (self.schedule is None) == (self.every is None):
            raise ConfigurationError("pass exactly one of schedule and every")
        if self.every is not None:
            return schedule.every(self.every)
        assert self.schedule is not None
        return schedule.parse(self.schedule, zone_of(self.time_zone))

    def _check_task(self) -> None:
        task = resolve_task(self.task.module_path, *self._options())
        if not isinstance(self.skip_if_unfinished, bool):
            raise ConfigurationError(f"skip_if_unfinished must be True or False, not {self.skip_if_unfinished!r}")
        if self.skip_if_unfinished and getattr(task, "unique", None) is not None:
            raise ConfigurationError("skip_if_unfinished is not possible for a task with unique: a task has one key")
        if self.skip_if_unfinished and belongs_to_other_backend(task):
            raise ConfigurationError("skip_if_unfinished is only possible for tasks of Steady Queue")

    def _check_arguments(self) -> None:
        if not isinstance(self.args, (list, tuple)) or not isinstance(self.kwargs, Mapping):
            raise ConfigurationError("args must be a list or a tuple, and kwargs a dict")
        if steady_queue.check_arguments:
            check_call(self.task, self.args, self.kwargs)
        arguments.dumps(self.args, self.kwargs)


def recurring(
    schedule: str | None = None,
    key: str = "",
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    priority: int | None = None,
    description: str | None = None,
    time_zone: str | None = None,
    catch_up: CatchUp = "none",
    *,
    every: timedelta | None = None,
    skip_if_unfinished: bool = False,
) -> Callable[[SteadyQueueTask[P, T]], SteadyQueueTask[P, T]]:
    """Enqueue a task again and again, by a cron `schedule` or at an interval. Put it above `@task()`, also repeatedly.

    `queue_name` and `priority` are by default the task's own, `time_zone` is the project's. `catch_up` decides about
    ticks that were missed while no scheduler was running. With `skip_if_unfinished`, a tick is left out while the task
    of an earlier tick waits or runs. Wrong options are reported when a process starts.
    """

    def register(task: SteadyQueueTask[P, T]) -> SteadyQueueTask[P, T]:
        if not isinstance(task, Task):
            raise ConfigurationError(f"put @recurring above @task(); it was applied to {type(task).__name__}")
        recurrences.add(
            Recurrence(
                task=task,
                key=key,
                schedule=schedule,
                every=every,
                args=() if args is None else args,
                kwargs={} if kwargs is None else kwargs,
                queue_name=queue_name,
                priority=priority,
                description=description or "",
                time_zone=time_zone,
                catch_up=catch_up,
                skip_if_unfinished=skip_if_unfinished,
            )
        )
        return task

    return register


class Recurrences:
    """The recurring tasks of the modules that have been imported, or of the settings."""

    def __init__(self, unknown: Sequence[str] = ()) -> None:
        self._by_path: dict[str, list[Recurrence]] = {}
        #: The problems of definitions whose task cannot be found.
        self._unknown = unknown

    def add(self, new: Recurrence) -> None:
        known = self._by_path.setdefault(new.task.module_path, [])
        if known and known[0].task.func is not new.task.func:
            known.clear()  # a module that was reloaded has new functions
        known.append(new)

    @property
    def _all(self) -> list[Recurrence]:
        """All recurring tasks, grouped by task."""
        return [recurrence for group in self._by_path.values() for recurrence in group]

    def __len__(self) -> int:
        return len(self._all)

    def problems(self) -> Iterator[str]:
        """Return every problem of every definition."""
        yield from self._unknown
        paths: defaultdict[str, list[str]] = defaultdict(list)
        for recurrence in self._all:
            yield from recurrence.problems()
            paths[str(recurrence.key)].append(recurrence.task.module_path)
        for key in sorted(key for key, found in paths.items() if len(found) > 1):
            yield f"recurring task {key!r:.100}: {len(paths[key])} entries have this key: {', '.join(paths[key])}"

    def entries(self) -> list[NewEntry]:
        """Return the entries to store; raises ConfigurationError for a definition with a problem."""
        return [recurrence.entry() for recurrence in self._all]


recurrences = Recurrences()


def collect_recurrences(options: Options) -> Recurrences:
    """Return the recurring tasks of the options, or else those of the code."""
    if options.recurring_tasks is None:
        return recurrences
    unknown: list[str] = []
    listed = Recurrences(unknown)
    for given in options.recurring_tasks:
        try:
            task = registry.resolve(given.class_name)
        except Exception as error:  # importing the module may raise anything
            unknown.append(f"recurring task {given.key!r:.100}: {error}")
            continue
        listed.add(
            Recurrence(
                task=task,
                key=given.key,
                schedule=given.schedule,
                args=given.args,
                kwargs=given.kwargs,
                queue_name=given.queue_name,
                priority=given.priority,
                description=given.description or "",
                time_zone=given.time_zone,
                catch_up=given.catch_up,
                skip_if_unfinished=given.skip_if_unfinished,
            )
        )
    return listed


def zone_of(name: str | None) -> str:
    """Return the name of the time zone of an entry: its own, or else the project's."""
    return name if name is not None else settings.TIME_ZONE


def resolve_task(path: str, queue_name: str | None, priority: int | None) -> Task[..., Any]:
    """Return the task at this path with the queue and priority of an entry, checked by its backend."""
    return registry.resolve(path).using(queue_name=queue_name, priority=priority)


def belongs_to_other_backend(task: Task[..., Any]) -> bool:
    """Whether the backend of the task is not Steady Queue's."""
    return not issubclass(task_backends[task.backend].task_class, SteadyQueueTask)
