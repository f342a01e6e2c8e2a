"""Everything that the runtime tells about itself, one class each with its fields. Logging is one subscriber.

Events on the path of every job are told in batches and at DEBUG: a line for each would cost more than the job.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

from steady_queue.store.enqueue import DISCARDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

logger = logging.getLogger("steady_queue")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Event:
    """Something that happened, with what its class annotates as fields; `level` is that of its log line.

    Dataclasses to those who check types. Real ones would take longer to make than all else that a process imports.
    """

    level: ClassVar[int] = logging.DEBUG
    text: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} cannot be changed")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


class ProcessStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(name)s started on %(database)s: queues %(queues)s, %(coroutines)d coroutines, %(threads)d threads"
    )
    name: str
    database: str
    queues: str
    coroutines: int
    threads: int


class ProcessStopping(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stops: %(running)d tasks run still"
    name: str
    running: int


class ProcessStopped(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stopped: %(released)d tasks given back, %(abandoned)d could not be stopped"
    name: str
    released: int
    abandoned: int


class ProcessRegistered(Event):
    """The process has a row again, after others had declared it dead."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s registered%(again)s"
    name: str
    again: str


class JobsClaimed(Event):
    text: ClassVar[str] = "claimed %(count)d jobs in %(milliseconds).1f ms"
    count: int
    milliseconds: float


class JobsSettled(Event):
    text: ClassVar[str] = "settled %(count)d jobs in %(milliseconds).1f ms, %(promoted)d unblocked"
    count: int
    promoted: int
    milliseconds: float


class JobFailed(Event):
    """Logged by the framework already, with its traceback."""

    text: ClassVar[str] = "%(task_path)s %(job_id)s failed: %(error)s"
    job_id: UUID
    task_path: str
    error: str


class JobFenced(Event):
    """The claim had been taken back while the task ran: its outcome was not written."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s: its claim had been taken back, the outcome was not written"
    job_id: UUID
    task_path: str


class JobReleased(Event):
    """Given back: not started, or really stopped."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s was given back: %(reason)s"
    job_id: UUID
    task_path: str
    reason: str


class ClaimsReconciled(Event):
    """Claims of ours that we do not know, because the reply to a claim was lost, went back to ready."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(count)d claims whose reply was lost were given back"
    count: int


class JobsDispatched(Event):
    text: ClassVar[str] = "dispatched %(count)d jobs, %(discarded)d discarded"
    count: int
    discarded: int


class JobDiscarded(Event):
    """Its limit says that it does not wait, and it found no free slot. Enqueuers write the same line into their log."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = DISCARDED
    job_id: UUID


class RecurringEnqueued(Event):
    text: ClassVar[str] = "enqueued %(count)d recurring tasks, %(discarded)d discarded"
    count: int
    discarded: int


class RecurringDiscarded(Event):
    """A tick whose task found its concurrency key full, and was to be discarded then."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s was discarded at %(run_at)s: its concurrency key had no free slot"
    key: str
    run_at: datetime


class RecurringLeft(Event):
    """An entry that this process cannot enqueue, and others perhaps can: of another project, or of newer code."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s is left to others: %(reason)s"
    key: str
    reason: str


class RecurringDisabled(Event):
    """An entry that cannot fire: it stays off until it is changed or switched on."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "recurring task %(key)s was switched off: %(reason)s"
    key: str
    reason: str


class ProcessPruned(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(name)s is dead (%(reason)s): %(jobs)d of its tasks were failed"
    name: str
    reason: str
    jobs: int


class OrphansFailed(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(jobs)d tasks claimed by no registered process were failed"
    jobs: int


class SlotsRepaired(Event):
    """Slots without an owner: must not happen, so it is an error although it is repaired."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(count)d concurrency slots had no owner and were freed"
    count: int


class JobOverran(Event):
    """It runs for longer than its limit's duration, and has let its slot go, as its limit says."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s takes long: others of %(concurrency_key)s may start beside it"
    job_id: UUID
    task_path: str
    concurrency_key: str


class JobsPromoted(Event):
    text: ClassVar[str] = "maintenance unblocked %(count)d jobs"
    count: int


class JobsCleared(Event):
    text: ClassVar[str] = "cleared %(count)d %(which)s jobs"
    count: int
    which: str


class NobodyServes(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "ready tasks wait in %(where)s, which no live process serves"
    where: str


class DatabaseLost(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(service)s: the database cannot be used (%(error)s); trying again"
    service: str
    error: str


class DatabaseBack(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(service)s: the database is back after %(seconds).1f s"
    service: str
    seconds: float


class TrustLost(Event):
    """Others may take this process for dead by now: it claims nothing and stops its async tasks."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "no heartbeat for %(seconds).0f s: async tasks are stopped, %(threads)d threads still run"
    seconds: float
    threads: int


class OutcomesUnwritten(Event):
    """The process stopped while the database was away: others will find these tasks and fail them."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "what became of %(count)d tasks could not be written before the end: they will count as failed"
    )
    count: int


class ClaimsTaken(Event):
    """Others have taken claims whose tasks still run here: those are stopped."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "%(count)d claims were taken by others: their tasks are stopped, %(threads)d threads still run"
    )
    count: int
    threads: int


class LoopBlocked(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "the event loop is blocked for %(seconds).1f s by %(task)s, in %(where)s"
    seconds: float
    task: str
    where: str


class ListenerLost(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "the listener for new tasks is silent (%(error)s): polling until it is replaced"
    error: str


class RuntimeFault(Event):
    """An error of ours that was survived."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(where)s: %(error)s"
    where: str
    error: str


class ProcessRetiring(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "this process takes no more tasks: %(reason)s"
    reason: str


class ChildStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(what)s started as process %(pid)d"
    pid: int
    what: str


class ChildLeft(Event):
    """A child process ended because it was told to."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "process %(pid)d, %(what)s, left: it %(how)s after %(lived).1f s"
    pid: int
    what: str
    how: str
    lived: float


class ChildDied(Event):
    """A child process ended unasked; `pause`: how long until its post is filled again."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "process %(pid)d, %(what)s, died: it %(how)s after %(lived).1f s; replaced in %(pause).1f s"
    pid: int
    what: str
    how: str
    lived: float
    pause: float


class CrewStopping(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(count)d processes have %(seconds).1f s to finish their tasks; QUIT, or Ctrl-C once more, stops them at once"
    )
    count: int
    seconds: float


class ChildSilent(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "process %(pid)d, %(what)s, has not been heard for %(seconds).0f s and is killed"
    pid: int
    what: str
    seconds: float


class ChildBuried(Event):
    """What became of the tasks that a child had when it ended."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "tasks of process %(pid)d: %(failed)d failed, %(given_back)d given back"
    pid: int
    failed: int
    given_back: int


class Events:
    """Where services tell what happened, and who hears it."""

    def __init__(self, subscribers: Sequence[Callable[[Event], object]] = ()) -> None:
        self.subscribers = list(subscribers) if subscribers else [log]

    def tell(self, event: Event) -> None:
        for subscriber in self.subscribers:
            try:
                subscriber(event)
            except Exception:
                logger.exception("a subscriber of events failed on %r", event)


def log(event: Event) -> None:
    """The subscriber that writes log lines."""
    if logger.isEnabledFor(event.level):
        logger.log(event.level, event.text, vars(event), extra={"event": type(event).__name__})
