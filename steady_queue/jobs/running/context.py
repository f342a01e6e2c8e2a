"""The context of a running task: what it may ask its worker, and what it may report to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from asgiref.sync import sync_to_async

from steady_queue.errors import TaskCancelled, TaskTimeout
from steady_queue.jobs import compat
from steady_queue.jobs.json_values import dump_checkpoint, dump_metadata
from steady_queue.jobs.running import completion
from steady_queue.jobs.running.reports import LogLine, Progress, check_progress, cut_line
from steady_queue.jobs.running.saving import Checkpoint, asave, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from steady_queue.jobs.results.task_result import SteadyQueueResult
    from steady_queue.store.job import CancelRequest, Claim
    from steady_queue.store.outcome import Completed

P = ParamSpec("P")
T = TypeVar("T")


class Deadline(NamedTuple):
    """When an attempt times out."""

    #: By `time.monotonic()`.
    instant: float
    #: By the clock of the process.
    at: datetime
    #: The timeout of the attempt.
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline of an attempt that begins now."""
        return cls(monotonic() + seconds, datetime.now(UTC) + timedelta(seconds=seconds), seconds)

    @property
    def has_passed(self) -> bool:
        return monotonic() >= self.instant

    def error(self) -> TaskTimeout:
        return TaskTimeout(f"the attempt took longer than its timeout of {self.seconds:g} s")


class TaskControl:
    """What a worker knows about a task that it runs. The event loop writes it, the task reads it in any thread.

    What every task reads or changes is in slots; the defaults of the rest are attributes of the class, because most
    tasks change none of them (measured: 1 % of a small task).
    """

    __slots__ = ("__dict__", "claim", "completed", "has_ended", "has_timed_out")

    claim: Claim
    #: Set when the task was settled in its own transaction, or lost its claim there.
    completed: Completed | None
    #: Whether the attempt has ended: a context that was kept is of no use then, and what follows, such as receivers of
    #: signals, must not be cancelled.
    has_ended: bool
    #: Whether the attempt has timed out: an async task is cancelled then, a function in a thread continues.
    has_timed_out: bool

    def __init__(self, claim: Claim, *, is_replay: bool = False, joins_transaction: bool = False) -> None:
        self.claim = claim
        self.completed = None
        self.has_ended = False
        self.has_timed_out = False
        if is_replay:
            self.is_replay = True
        if joins_transaction:
            self.joins_transaction = True

    #: When the attempt times out; None for a task without a timeout, and for an async task that has ended.
    deadline: Deadline | None = None
    #: Set when the task is to be cancelled.
    cancellation: CancelRequest | None = None
    #: Whether the task is run by hand, without a claim: its own transaction is committed, and nothing is settled.
    is_replay: bool = False
    #: Whether the transaction in which the task is settled may be part of one of the caller, as in tests.
    joins_transaction: bool = False
    #: Whether the task is in the transaction in which it is settled; settles itself there; and has sent a commit whose
    #: reply was lost.
    is_in_completion: bool = False
    is_completing: bool = False
    is_commit_unknown: bool = False


class ContextServices(Protocol):
    """What the process does for its tasks."""

    #: Whether what a task saves is written to its job.
    saves: bool

    @property
    def is_stopping(self) -> bool: ...
    async def stopping(self) -> None: ...
    def put_progress(self, claim: Claim, progress: Progress) -> None: ...
    def put_line(self, claim: Claim, line: LogLine) -> None: ...


class NoServices:
    """The services where no process runs, as in `manage.py steady_queue run`: nothing is stored."""

    saves = False
    is_stopping = False

    async def stopping(self) -> None:
        await asyncio.Event().wait()

    def put_progress(self, claim: Claim, progress: Progress) -> None:
        pass

    def put_line(self, claim: Claim, line: LogLine) -> None:
        pass


NO_SERVICES = NoServices()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext(compat.TaskContext):
    """The framework's TaskContext, with what a worker of Steady Queue offers to a task."""

    control: TaskControl
    services: ContextServices
    process_name: str = ""
    _checkpoint: Checkpoint = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_checkpoint", Checkpoint(self.control.claim.saved))

    # -- metadata and checkpoints -------------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the task: a dict that it may change, and store with `save_metadata`."""
        return cast("SteadyQueueResult[Any]", self.task_result).metadata

    def save_metadata(self) -> None:
        """Store the metadata at once, or with the transaction that is open on the queue's database."""
        text = dump_metadata(self.metadata)
        if self.services.saves:
            save(self.control.claim, "metadata", text)

    async def asave_metadata(self) -> None:
        """Store the metadata at once."""
        text = dump_metadata(self.metadata)
        if self.services.saves:
            await asave(self.control.claim, "metadata", text)

    @property
    def saved(self) -> Any:
        """What the last checkpoint of this task stored, in this attempt or an earlier one; None if there is none."""
        return self._checkpoint.load()

    def checkpoint(self, data: Any) -> None:
        """Store JSON for the next attempt, at once, or with the transaction that is open on the queue's database."""
        text = dump_checkpoint(data)
        if self.services.saves:
            save(self.control.claim, "saved", text)
        self._checkpoint.text = text

    async def acheckpoint(self, data: Any) -> None:
        """Store JSON for the next attempt, at once."""
        text = dump_checkpoint(data)
        if self.services.saves:
            await asave(self.control.claim, "saved", text)
        self._checkpoint.text = text

    # -- reports ------------------------------------------------------------------------------------------------------

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the task is. It blocks nothing: the process writes the reports of its tasks every second."""
        check_progress(done, total, message)
        if not self.control.has_ended:  # a thread of the task may survive it
            self.services.put_progress(self.control.claim, Progress(done, total, message, datetime.now(UTC)))

    def log(self, message: str) -> None:
        """Add a line to the log of the task. It blocks nothing, as `progress`."""
        claim = self.control.claim
        line = LogLine(cut_line(message), claim.attempts + 1, datetime.now(UTC))
        if not self.control.has_ended:
            self.services.put_line(claim, line)

    # -- the end of the process ---------------------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        """Whether the process is shutting down, or is being replaced: save a checkpoint and raise Interrupted."""
        return self.services.is_stopping

    async def stopping(self) -> None:
        """Wait until `is_stopping` is true."""
        await self.services.stopping()

    # -- the timeout --------------------------------------------------------------------------------------------------

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, as an aware datetime; None without a timeout."""
        deadline = self.control.deadline
        return None if deadline is None else deadline.at

    def remaining(self) -> float | None:
        """How many seconds are left until the timeout, at least 0; None without a timeout."""
        deadline = self.control.deadline
        return None if deadline is None else max(0.0, deadline.instant - monotonic())

    def raise_if_timed_out(self) -> None:
        """Raise TaskTimeout if the timeout has passed. A function in a thread can only end so."""
        deadline = self.control.deadline
        if deadline is not None and deadline.has_passed:
            raise deadline.error()

    # -- completion ---------------------------------------------------------------------------------------------------

    def completing(self, result: Any = None) -> AbstractContextManager[completion.Completion]:
        """The last part of a task: a transaction in which the task is settled with this result, before its only commit.

        `with context.completing() as completion` sets the result in the block: `completion.result = ...`.
        """
        return completion.completing(self.control, self.process_name, result)

    async def complete_in_transaction(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """In an async task: call a sync function in such a transaction, on the task's ORM thread.

        What it returns is the result of the task.
        """

        def complete() -> T:
            with self.completing() as block:
                block.result = value = function(*args, **kwargs)
            return value

        return await sync_to_async(complete, thread_sensitive=True)()

    # -- cancellation -------------------------------------------------------------------------------------------------

    @property
    def is_cancelled(self) -> bool:
        """Whether the task is to be cancelled. A function in a thread must look at this from time to time."""
        return self.control.cancellation is not None

    def raise_if_cancelled(self) -> None:
        """Raise TaskCancelled, which ends the task, if it is to be cancelled."""
        if self.control.cancellation is not None:
            raise TaskCancelled(*self.control.cancellation)
