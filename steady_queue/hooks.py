"""Hooks: application code that is called when actors start, stop and exit, and when the runtime has an error.

    from steady_queue import hooks

    @hooks.worker.on_start
    def warm_cache(worker): ...

    @hooks.on_error
    def report(error, origin): ...

The actors `supervisor`, `worker`, `dispatcher` and `scheduler` have three hook points each:

    on_start    the actor is registered; it does not look for work before all these hooks have returned
    on_stop     the actor was asked to stop; its tasks may still run
    on_exit     all tasks have ended or were abandoned, and what the database accepted is written

Sync hooks are called in a thread, async hooks are awaited in the event loop. The hooks of a hook point are called one
after another, in the order of registration. An exception in a hook is reported and affects nothing else. A hook that
never returns cannot delay a shutdown: see aio/process/lifecycle.py for the timeouts.

Register hooks before the actor starts: in `tasks.py` or in `AppConfig.ready`. A supervisor does not import tasks:
register its hooks in `AppConfig.ready` or in settings.py.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from steady_queue import events
from steady_queue.events.base import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from steady_queue.events import Fault

    ErrorHook: TypeAlias = Callable[[BaseException, str], object]
    Kind = Literal["supervisor", "worker", "dispatcher", "scheduler"]
    Hook = Callable[["Actor"], object]
    H = TypeVar("H", bound=Hook)
    E = TypeVar("E", bound=ErrorHook)

logger = logging.getLogger("steady_queue")

#: The minimum time between two reports of errors with the same type and origin.
REPEAT_SECONDS = 10.0
#: Errors that may wait for the reporter's thread, and pairs of origin and type that are remembered.
MAX_WAITING, MAX_REMEMBERED = 100, 1000


class Reporter:
    """A subscriber of events that calls the `on_error` hooks in its own thread.

    Hooks may be slow, and an error may occur anywhere: in the event loop, a thread, a web request. No caller waits for
    the hooks. Errors with the same type and origin are reported at most once in `REPEAT_SECONDS`.
    """

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()
        self._waiting: deque[tuple[BaseException, str]] = deque()
        self._is_busy = False
        self._reported_at: dict[tuple[str, type[BaseException]], float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, fault: Fault) -> None:
        source = (fault.origin, type(fault.exception))
        now = time.monotonic()
        with self._changed:
            if now - self._reported_at.get(source, -inf) < REPEAT_SECONDS or len(self._waiting) >= MAX_WAITING:
                return
            if len(self._reported_at) >= MAX_REMEMBERED:
                self._reported_at.clear()
            self._reported_at[source] = now
            self._waiting.append((fault.exception, fault.origin))
            if self._thread is None or not self._thread.is_alive():  # the thread does not survive a fork
                self._thread = threading.Thread(target=self._serve, name="steady-queue-errors", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        return self._is_busy or bool(self._waiting)

    def flush(self, seconds: float) -> None:
        """Wait until the hooks were called for all errors, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_busy, seconds)

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: bool(self._waiting))
                self._is_busy = True
                error, origin = self._waiting.popleft()
            for hook in self.hooks:
                self._call(hook, error, origin)
            del error
            if not self._waiting:
                with suppress(Exception):
                    _close_connections()

    def _call(self, hook: ErrorHook, error: BaseException, origin: str) -> None:
        try:
            answer = hook(error, origin)
            if inspect.iscoroutine(answer):
                asyncio.run(answer)
        except BaseException:
            with suppress(BaseException):
                logger.exception("the on_error hook %s failed", name_of(hook))


def _close_connections() -> None:
    from django.db import connections  # not at the top: settings.py may import this module

    connections.close_all()


class Actor(NamedTuple):
    """The argument of a hook: the actor that starts, stops or exits. One process may run several actors."""

    kind: Kind
    #: The name and the id of its process, as in rows, logs and errors.
    name: str
    process_id: UUID
    pid: int
    hostname: str
    supervisor_id: UUID | None
    #: The queues of a worker, in the order in which it serves them.
    queues: tuple[str, ...]
    #: Its other options.
    metadata: Mapping[str, Any]

    def as_metadata(self) -> dict[str, Any]:
        """How the row of its process describes it: maintenance and health checks of other processes read that."""
        if self.kind == "worker":
            lanes = {"async": self.metadata["coroutines"], "thread": self.metadata["threads"]}
            excluded = self.metadata.get("exclude_queues")
            without = {"exclude_queues": excluded} if excluded else {}
            return {"kind": self.kind, "queues": list(self.queues), **without, **lanes}
        return {"kind": self.kind, **({"processes": self.metadata["processes"]} if self.kind == "supervisor" else {})}


class HookPoint:
    """A decorator that registers a hook, and the registered hooks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hooks: tuple[Hook, ...] = ()

    def __call__(self, hook: H) -> H:
        if not callable(hook):
            raise TypeError(f"{self.name} requires a function, not {hook!r}")
        if hook not in self.hooks:
            self.hooks = (*self.hooks, hook)
        return hook


class ActorHooks:
    """The hook points of one kind of actor."""

    def __init__(self, kind: Kind) -> None:
        self.on_start = HookPoint(f"{kind}.on_start")
        self.on_stop = HookPoint(f"{kind}.on_stop")
        self.on_exit = HookPoint(f"{kind}.on_exit")


supervisor = ActorHooks("supervisor")
worker = ActorHooks("worker")
dispatcher = ActorHooks("dispatcher")
scheduler = ActorHooks("scheduler")

by_kind: dict[Kind, ActorHooks] = {
    "supervisor": supervisor,
    "worker": worker,
    "dispatcher": dispatcher,
    "scheduler": scheduler,
}
reporter = Reporter()


def on_error(hook: E) -> E:
    """Call `hook` with each error in the runtime, and with the name of the part in which it occurred.

    Errors of tasks are not included: Django logs them. The hook is called in its own thread; an async hook is awaited
    in its own event loop. Errors with the same type and origin are reported at most once in ten seconds.
    """
    if not callable(hook):
        raise TypeError(f"on_error requires a function, not {hook!r}")
    if hook not in reporter.hooks:
        reporter.hooks = (*reporter.hooks, hook)
        events.subscribe(reporter, only=[events.Fault])
    return hook


def remove(hook: Callable[..., object]) -> None:
    """Remove a hook from all hook points; for tests."""
    for actor_hooks in by_kind.values():
        for point in (actor_hooks.on_start, actor_hooks.on_stop, actor_hooks.on_exit):
            point.hooks = tuple(known for known in point.hooks if known != hook)
    reporter.hooks = tuple(known for known in reporter.hooks if known != hook)
    if not reporter.hooks:
        events.unsubscribe(reporter)
