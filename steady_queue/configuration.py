"""What runs: `STEADY_QUEUE = Configuration.Options(...)` in settings.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from steady_queue.store.limits import NAME_LENGTH, unstorable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Takes ready tasks from queues and runs them.

    It runs up to `coroutines` async tasks in its event loop and up to `threads` sync functions in threads, each in
    `processes` processes. `queues` are taken in order: a name, a `prefix*`, or `*` for all.
    """

    queues: Sequence[str] | str = ("*",)
    coroutines: int = 100
    threads: int = 3
    subprocesses: int = 0
    processes: int = 1
    polling_interval: timedelta = timedelta(seconds=0.1)
    #: Threads, and so database connections, that the ORM calls of all async tasks share.
    orm_lanes: int = 8

    def problems(self) -> Iterator[str]:
        if isinstance(self.queues, str) or not self.queues:
            yield f"queues must be a list of names, not {self.queues!r}"
        else:
            for name in self.queues:
                if not isinstance(name, str) or unstorable(name, NAME_LENGTH):
                    yield f"queues has a name that cannot be stored: {name!r}"
        for what in ("coroutines", "threads"):
            if not _is_count(getattr(self, what), 0):
                yield f"{what} must be a whole number of at least 0, not {getattr(self, what)!r}"
        if self.coroutines == 0 and self.threads == 0:
            yield "coroutines and threads are both 0: it could run nothing"
        for what in ("processes", "orm_lanes"):
            if not _is_count(getattr(self, what), 1):
                yield f"{what} must be a whole number of at least 1, not {getattr(self, what)!r}"
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
        if not _is_count(self.batch_size, 1):
            yield f"batch_size must be a whole number of at least 1, not {self.batch_size!r}"
        yield from _interval("polling_interval", self.polling_interval)
        yield from _interval("concurrency_maintenance_interval", self.concurrency_maintenance_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything that one installation runs. What is left out runs with its defaults."""

    workers: Sequence[Worker] = field(default_factory=lambda: [Worker()])
    dispatchers: Sequence[Dispatcher] = field(default_factory=lambda: [Dispatcher()])
    only_work: bool = False
    skip_recurring: bool = False

    def problems(self) -> Iterator[str]:
        """Everything that is wrong, not only the first thing."""
        if not self.workers and (self.only_work or not self.dispatchers):
            yield "there is nothing to run: no workers and no dispatchers"
        for number, worker in enumerate(self.workers):
            yield from (f"workers[{number}]: {problem}" for problem in worker.problems())
        for number, dispatcher in enumerate(self.dispatchers):
            yield from (f"dispatchers[{number}]: {problem}" for problem in dispatcher.problems())


class Configuration:
    """The names under which settings.py spells its options."""

    Options = Options
    Worker = Worker
    Dispatcher = Dispatcher


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _interval(what: str, value: object) -> Iterator[str]:
    if not isinstance(value, timedelta) or value <= timedelta(0):
        yield f"{what} must be a timedelta greater than zero, not {value!r}"
