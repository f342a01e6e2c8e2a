"""The context of a running task: what it may ask its worker, and what it may report to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from steady_queue.jobs import compat

if TYPE_CHECKING:
    from steady_queue.store.job import Claim


class CancelRequest(NamedTuple):
    """Who wants a task to be cancelled, and why."""

    by: str = ""
    reason: str = ""


@dataclass(slots=True)
class TaskControl:
    """What a worker knows about a task that it runs. The event loop writes it, the task reads it in any thread."""

    claim: Claim
    #: When the attempt times out, by `time.monotonic()`.
    deadline: float | None = None
    #: Set when the task is to be cancelled.
    cancellation: CancelRequest | None = None
    #: Whether the attempt has timed out: an async task is cancelled then, a function in a thread continues.
    has_timed_out: bool = False


class ContextServices(Protocol):
    """What the process does for its tasks."""

    @property
    def is_stopping(self) -> bool: ...


class NoServices:
    """The services where no process runs: in tests and in `manage.py steady_queue run`."""

    is_stopping = False


NO_SERVICES = NoServices()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext(compat.TaskContext):
    """The framework's TaskContext, with what a worker of Steady Queue offers to a task."""

    control: TaskControl
    services: ContextServices
