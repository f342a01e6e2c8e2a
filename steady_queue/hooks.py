"""Hooks: code of users that is called when what runs tasks starts, stops and ends, and when something goes wrong.

    from steady_queue import hooks

    @hooks.worker.on_start
    def warm(worker): ...

    @hooks.on_error
    def tell(error, origin): ...

`supervisor`, `worker`, `dispatcher` and `scheduler` each have three moments:

    on_start    it is registered, and has not looked for work yet: it does not before all these hooks have returned
    on_stop     it was told to stop, and its tasks may still run
    on_exit     all that ran here has ended and is written

A hook is sync, and then called in a thread, or async, and then awaited in the event loop. Those of a moment are called
one after another, in the order in which they were registered. One that raises is reported, and harms nobody. One that
never returns cannot hold up a stop: see aio/lifecycle.py for the time that there is.

They must be registered before it starts: in `tasks.py` or `AppConfig.ready`. A supervisor imports no tasks: its hooks
belong into `AppConfig.ready`, or into settings.py.

Reporter: tells errors inside the runtime to the `on_error` hooks, in a thread of its own.

They may take their time, and an error may come from anywhere: the event loop, a thread, a web request. So nobody waits
for them. An error of the same type from the same place is told at most every few seconds.
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

#: How long the same error from the same place is not told again, in seconds.
REPEAT_SECONDS = 10.0
#: Errors that may wait to be told, and places that are remembered.
MAX_WAITING, MAX_REMEMBERED = 100, 1000


class Reporter:
    """A subscriber of events."""

    def __init__(self) -> None:
        self.hooks: tuple[ErrorHook, ...] = ()
        self._waiting: deque[tuple[BaseException, str]] = deque()
        self._is_busy = False
        self._told: dict[tuple[str, type[BaseException]], float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def __call__(self, fault: Fault) -> None:
        place = (fault.origin, type(fault.exception))
        now = time.monotonic()
        with self._changed:
            if now - self._told.get(place, -inf) < REPEAT_SECONDS or len(self._waiting) >= MAX_WAITING:
                return
            if len(self._told) >= MAX_REMEMBERED:
                self._told.clear()
            self._told[place] = now
            self._waiting.append((fault.exception, fault.origin))
            if self._thread is None or not self._thread.is_alive():  # a fork has lost it
                self._thread = threading.Thread(target=self._serve, name="steady-queue-errors", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        return self._is_busy or bool(self._waiting)

    def flush(self, seconds: float) -> None:
        """Wait until everything is told, or for so long."""
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
                    _let_connections_go()

    def _call(self, hook: ErrorHook, error: BaseException, origin: str) -> None:
        try:
            answer = hook(error, origin)
            if inspect.iscoroutine(answer):
                asyncio.run(answer)
        except BaseException:
            with suppress(BaseException):
                logger.exception("the on_error hook %s failed", name_of(hook))


def _let_connections_go() -> None:
    from django.db import connections  # settings.py may register hooks

    connections.close_all()


class Actor(NamedTuple):
    """What a hook is told: who starts, stops or has ended. Several of them may run in one process."""

    kind: Kind
    #: The name and the id of its process, as rows, logs and errors tell them.
    name: str
    process_id: UUID
    pid: int
    hostname: str
    supervisor_id: UUID | None
    #: The queues of a worker, in its order.
    queues: tuple[str, ...]
    #: What else it was told by its options.
    metadata: Mapping[str, Any]


class HookPoint:
    """A decorator that registers a hook, and the hooks of a moment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hooks: tuple[Hook, ...] = ()

    def __call__(self, hook: H) -> H:
        if not callable(hook):
            raise TypeError(f"{self.name} needs a function, not {hook!r}")
        if hook not in self.hooks:
            self.hooks = (*self.hooks, hook)
        return hook


class ActorHooks:
    """The moments in the life of one kind of actor."""

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
    """Call it with each error inside the runtime, and with the name of the part that it comes from.

    Not with those of tasks: the framework logs them. It is called in a thread of its own, an async one in an event loop
    of its own. The same error from the same part comes at most every ten seconds.
    """
    if not callable(hook):
        raise TypeError(f"on_error needs a function, not {hook!r}")
    if hook not in reporter.hooks:
        reporter.hooks = (*reporter.hooks, hook)
        events.subscribe(reporter, only=[events.Fault])
    return hook


def remove(hook: Callable[..., object]) -> None:
    """Call it no more, wherever it was registered: for tests."""
    for moments in by_kind.values():
        for moment in (moments.on_start, moments.on_stop, moments.on_exit):
            moment.hooks = tuple(known for known in moment.hooks if known != hook)
    reporter.hooks = tuple(known for known in reporter.hooks if known != hook)
    if not reporter.hooks:
        events.unsubscribe(reporter)
