"""Recurring tasks: `@recurring` around `@task`, and what is wrong with what it was given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from django.conf import settings

from steady_queue import arguments
from steady_queue.errors import ConfigurationError
from steady_queue.jobs.compat import Task, task_backends
from steady_queue.jobs.registry import registry
from steady_queue.jobs.task import SteadyQueueTask
from steady_queue.recurring import schedule
from steady_queue.recurring.catch_up import POLICIES
from steady_queue.store.names import NAME_LENGTH, explain_unstorable
from steady_queue.store.operations.recurring import NewEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from steady_queue.configuration import Options
    from steady_queue.recurring.schedule import Schedule

P = ParamSpec("P")
T = TypeVar("T")
CatchUp = Literal["none", "last", "all"]

ZONE_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """A task, when it recurs and with what: nothing of it has been looked at yet."""

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

    def entry(self) -> NewEntry:
        """The entry to store, or ConfigurationError with everything that is wrong."""
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
        )

    def _options(self) -> tuple[str | None, int | None]:
        """The queue and the priority that are stored: those that are not the ones of the task at its path."""
        task, registered = self.task, registry.resolve(self.task.module_path)
        queue_name, priority = self.queue_name, self.priority
        if queue_name is None and task.queue_name != registered.queue_name:
            queue_name = task.queue_name
        if priority is None and task.priority != registered.priority:
            priority = task.priority
        return queue_name, priority

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with it."""
        checks = (self._check_key, self._check_schedule, self._check_task, self._check_arguments)
        for check in checks:
            try:
                check()
            except Exception as error:  # of whatever was passed: it is all somebody else's
                yield f"recurring task {self.key!r:.100}: {error}"

    def _check_key(self) -> None:
        if not isinstance(self.key, str) or not self.key:
            raise ConfigurationError("the key must be a text that is not empty")
        if not isinstance(self.description, str):
            raise ConfigurationError(f"the description must be a text, not {self.description!r}")
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
        if self.time_zone is not None and len(self.time_zone) > ZONE_LENGTH:
            raise ConfigurationError(f"the name of the time zone has more than {ZONE_LENGTH} characters")

    def _ticks(self) -> Schedule:
        if (self.schedule is None) == (self.every is None):
            raise ConfigurationError("it needs either a schedule or every, and not both")
        if self.every is not None:
            return schedule.every(self.every)
        assert self.schedule is not None
        return schedule.parse(self.schedule, zone_of(self.time_zone))

    def _check_task(self) -> None:
        resolve_task(self.task.module_path, *self._options())

    def _check_arguments(self) -> None:
        if not isinstance(self.args, (list, tuple)) or not isinstance(self.kwargs, Mapping):
            raise ConfigurationError("args must be a list or tuple, and kwargs a dictionary")
        context = (None,) if self.task.takes_context else ()
        try:
            signature(self.task.func).bind(*context, *self.args, **self.kwargs)
        except TypeError as error:
            raise ConfigurationError(f"{self.task.module_path} cannot be called so: {error}") from None
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
) -> Callable[[SteadyQueueTask[P, T]], SteadyQueueTask[P, T]]:
    """Enqueue a task again and again, by a crontab `schedule` or at an interval. Goes above `@task()`, many times over.

    Without `queue_name` or `priority` the task's own hold. `time_zone` is by default that of the project. `catch_up`
    says what becomes of the times at which nobody was there to enqueue it. What is wrong is told when a process starts.
    """

    def kept(task: SteadyQueueTask[P, T]) -> SteadyQueueTask[P, T]:
        if not isinstance(task, Task):
            raise ConfigurationError(f"recurring goes above @task(); it was given {type(task).__name__}")
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
            )
        )
        return task

    return kept


class Recurrences:
    """What the code of the project wants to recur, as far as it has been imported; or its settings."""

    def __init__(self, unknown: Sequence[str] = ()) -> None:
        self._by_path: dict[str, list[Recurrence]] = {}
        #: What is wrong with those that have no task.
        self._unknown = unknown

    def add(self, new: Recurrence) -> None:
        known = self._by_path.setdefault(new.task.module_path, [])
        if known and known[0].task.func is not new.task.func:
            known.clear()  # a module that is imported anew defines its functions anew
        known.append(new)

    @property
    def _all(self) -> list[Recurrence]:
        """Every one, those of a task together."""
        return [recurrence for those in self._by_path.values() for recurrence in those]

    def problems(self) -> Iterator[str]:
        """Everything that is wrong with any of them."""
        yield from self._unknown
        paths: defaultdict[str, list[str]] = defaultdict(list)
        for recurrence in self._all:
            yield from recurrence.problems()
            paths[str(recurrence.key)].append(recurrence.task.module_path)
        for key in sorted(key for key, those in paths.items() if len(those) > 1):
            yield f"recurring task {key!r:.100}: {len(paths[key])} entries have this key: {', '.join(paths[key])}"

    def entries(self) -> list[NewEntry]:
        """All of them, which must be without a problem."""
        return [recurrence.entry() for recurrence in self._all]


recurrences = Recurrences()


def collect_recurrences(options: Options) -> Recurrences:
    """What is to recur: what the options list, or else what the code says."""
    if options.recurring_tasks is None:
        return recurrences
    unknown: list[str] = []
    listed = Recurrences(unknown)
    for given in options.recurring_tasks:
        try:
            task = registry.resolve(given.class_name)
        except Exception as error:  # of whatever stands there, and of the module it leads to
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
            )
        )
    return listed


def zone_of(name: str | None) -> str:
    """The name of the zone in which an entry is evaluated."""
    return name if name is not None else settings.TIME_ZONE


def resolve_task(path: str, queue_name: str | None, priority: int | None) -> Task[..., Any]:
    """The task at this path with an entry's own queue and priority, checked by its backend."""
    return registry.resolve(path).using(queue_name=queue_name, priority=priority)


def belongs_to_other_backend(task: Task[..., Any]) -> bool:
    """Whether the task belongs to a backend that is not Steady Queue's."""
    return not issubclass(task_backends[task.backend].task_class, SteadyQueueTask)
