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
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from steady_queue import events
from steady_queue.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from steady_queue.reporter import ErrorHook

    Kind = Literal["supervisor", "worker", "dispatcher", "scheduler"]
    Hook = Callable[["Actor"], object]
    H = TypeVar("H", bound=Hook)
    E = TypeVar("E", bound=ErrorHook)


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


class Moment:
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


class Moments:
    """The moments in the life of one kind of actor."""

    def __init__(self, kind: Kind) -> None:
        self.on_start = Moment(f"{kind}.on_start")
        self.on_stop = Moment(f"{kind}.on_stop")
        self.on_exit = Moment(f"{kind}.on_exit")


supervisor = Moments("supervisor")
worker = Moments("worker")
dispatcher = Moments("dispatcher")
scheduler = Moments("scheduler")

by_kind: dict[Kind, Moments] = {
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
