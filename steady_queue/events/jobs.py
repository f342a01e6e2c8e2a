"""What happens to jobs and queues. What is on the path of every job is told in batches, and at DEBUG."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import POLLING, Event, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID


class Polled(Event):
    """A worker, dispatcher or scheduler has looked for work. Made only if somebody hears it."""

    level: ClassVar[int] = POLLING
    text: ClassVar[str] = "%(actor)s found %(found)d in %(milliseconds).1f ms"
    actor: str
    found: int
    milliseconds: float


class JobsClaimed(Event):
    text: ClassVar[str] = "claimed %(count)d jobs in %(milliseconds).1f ms"
    process_id: UUID
    job_ids: Sequence[UUID]
    count: int
    milliseconds: float


class JobsSettled(Event):
    text: ClassVar[str] = "settled %(count)d jobs in %(milliseconds).1f ms, %(promoted)d unblocked"
    count: int
    promoted: int
    milliseconds: float


class JobFailed(Event):
    """A task has raised.

    The framework logs it with its traceback; the cases in which it does not are the two subclasses.
    """

    text: ClassVar[str] = "%(task_path)s %(job_id)s failed: %(error)s"
    job_id: UUID
    task_path: str
    error: str


class JobUnrunnable(JobFailed):
    """It failed, and the framework knows nothing of it: its task is unknown, say, or its outcome cannot be stored."""

    level: ClassVar[int] = logging.ERROR


class JobFailedUnlogged(JobFailed):
    """A task has raised, and no handler emits what the framework logs of it."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(task_path)s %(job_id)s failed: %(error)s\n%(traceback)s"
    traceback: str


class JobsFailed(Event):
    """Jobs failed because their process is dead, has ended, or was never there; another event tells which."""

    text: ClassVar[str] = "%(count)d jobs failed: %(error)s"
    process_id: UUID | None
    job_ids: Sequence[UUID]
    count: int
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
    worker_id: str
    reason: str


class ClaimsReconciled(Event):
    """Claims of ours that we do not know, because the reply to a claim was lost, went back to ready."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(count)d claims whose reply was lost were given back"
    process_id: UUID
    count: int


class JobsDispatched(Event):
    text: ClassVar[str] = "dispatched %(count)d jobs, %(discarded)d discarded, in %(milliseconds).1f ms"
    batch_size: int
    count: int
    discarded: int
    milliseconds: float


class JobsPromoted(Event):
    """Blocked jobs got their slots; `by`: because others were settled, or found by maintenance."""

    text: ClassVar[str] = "%(by)s unblocked %(count)d jobs"
    by: str
    count: int


class JobRefused(Event):
    """Discarded when it was enqueued or its time had come, as its task asks for."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "job %(job_id)s was discarded: its concurrency key had no free slot"
    job_id: UUID


class JobOverran(Event):
    """It runs for longer than its limit's duration, and has let its slot go, as its limit says."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s takes long: others of %(concurrency_key)s may start beside it"
    job_id: UUID
    task_path: str
    concurrency_key: str


class JobsCleared(Event):
    text: ClassVar[str] = "cleared %(count)d %(which)s jobs"
    count: int
    which: str


class QueueNotServed(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "ready tasks wait in %(where)s, which no live process serves"
    where: str


class UnknownLane(Event):
    """Ready tasks in a lane that no worker of this version serves: written by a newer version, or by hand."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "the queue %(queue_name)r has ready tasks of the lane %(lane)d, which this version cannot run: they stay ready"
    )
    queue_name: str
    lane: int


# -- done by people ---------------------------------------------------------------------------------------------------


class JobsRetried(Event):
    text: ClassVar[str] = "%(count)d failed jobs run again"
    job_ids: Sequence[UUID]
    count: int


class JobsDiscarded(Event):
    """`status`: where they stood, one event for each."""

    text: ClassVar[str] = "%(count)d %(status)s jobs were discarded"
    job_ids: Sequence[UUID]
    count: int
    status: str


class JobsRunNow(Event):
    text: ClassVar[str] = "%(count)d scheduled or blocked jobs run now"
    job_ids: Sequence[UUID]
    count: int


class QueuePaused(Event):
    """`changed`: whether it was not paused before."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "the queue %(queue_name)s is paused"
    queue_name: str
    changed: bool


class QueueResumed(Event):
    """`changed`: whether it was paused before."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "the queue %(queue_name)s is served again"
    queue_name: str
    changed: bool


# -- recurring tasks --------------------------------------------------------------------------------------------------


class RecurringEnqueued(Event):
    """`ticks`: the key, the time and the job of each."""

    text: ClassVar[str] = "enqueued %(count)d recurring tasks, %(discarded)d discarded"
    ticks: Sequence[tuple[str, datetime, UUID]]
    count: int
    discarded: int


class RecurringSkipped(Event):
    """Another scheduler has enqueued them, or their entries have changed. `ticks`: the key and the time of each."""

    text: ClassVar[str] = "left %(count)d recurring tasks to others"
    ticks: Sequence[tuple[str, datetime]]
    count: int


class RecurringFailed(Fault):
    """A tick could not be enqueued; the entry stays."""

    text: ClassVar[str] = "recurring task %(key)s was not enqueued: %(error)s"
    key: str
    error: str

    @property
    def origin(self) -> str:
        return f"recurring task {self.key}"


class RecurringDiscarded(Event):
    """A tick whose task found its concurrency key full, and was to be discarded then."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s was discarded at %(run_at)s: its concurrency key had no free slot"
    key: str
    run_at: datetime


class RecurringUnavailable(Event):
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
