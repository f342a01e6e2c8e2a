"""Events of jobs, queues and recurring tasks. Events on the path of every job are emitted per batch, at DEBUG."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import POLLING, Event, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

__all__ = [
    "ClaimsReconciled",
    "JobFailed",
    "JobFailedUnlogged",
    "JobFenced",
    "JobOverran",
    "JobRefused",
    "JobReleased",
    "JobUnrunnable",
    "JobsClaimed",
    "JobsCleared",
    "JobsDiscarded",
    "JobsDispatched",
    "JobsFailed",
    "JobsPromoted",
    "JobsRetried",
    "JobsRunNow",
    "JobsSettled",
    "Polled",
    "QueueNotServed",
    "QueuePaused",
    "QueueResumed",
    "RecurringDisabled",
    "RecurringDiscarded",
    "RecurringEnqueued",
    "RecurringFailed",
    "RecurringSkipped",
    "RecurringUnavailable",
    "UnknownLane",
]


class Polled(Event):
    """A worker, dispatcher or scheduler polled for work. Created only if a subscriber wants it."""

    level: ClassVar[int] = POLLING
    text: ClassVar[str] = "%(actor)s found %(found)d in %(milliseconds).1f ms"
    actor: str
    found: int
    milliseconds: float


class JobsClaimed(Event):
    text: ClassVar[str] = "claimed %(count)d job[s] in %(milliseconds).1f ms"
    process_id: UUID
    job_ids: Sequence[UUID]
    count: int
    milliseconds: float


class JobsSettled(Event):
    text: ClassVar[str] = "settled %(count)d job[s] in %(milliseconds).1f ms, %(promoted)d blocked job[s] promoted"
    count: int
    promoted: int
    milliseconds: float


class JobFailed(Event):
    """A task raised an exception.

    Django logs it with its traceback; the two subclasses are the cases in which it does not.
    """

    text: ClassVar[str] = "%(task_path)s %(job_id)s failed: %(error)s"
    job_id: UUID
    task_path: str
    error: str


class JobUnrunnable(JobFailed):
    """A job failed without `task_finished`: its task is unknown, for example, or its outcome cannot be stored."""

    level: ClassVar[int] = logging.ERROR


class JobFailedUnlogged(JobFailed):
    """A task raised an exception, and no log handler emits the record that Django logs."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(task_path)s %(job_id)s failed: %(error)s\n%(traceback)s"
    traceback: str


class JobsFailed(Event):
    """Jobs failed because their process died, exited or was never registered; another event says which."""

    text: ClassVar[str] = "%(count)d job[s] failed: %(error)s"
    process_id: UUID | None
    job_ids: Sequence[UUID]
    count: int
    error: str


class JobFenced(Event):
    """Another process ended the claim while the task ran, so the outcome was not written."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(task_path)s %(job_id)s lost its claim while it ran: its outcome was not written"
    job_id: UUID
    task_path: str


class JobReleased(Event):
    """A claimed job became ready again: its task had not started, or was stopped."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s was released: %(reason)s"
    job_id: UUID
    task_path: str
    worker_id: str
    reason: str


class ClaimsReconciled(Event):
    """Claims that this process does not know, because the reply to a claim statement was lost, were released."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "released %(count)d claim[s] whose reply was lost"
    process_id: UUID
    count: int


class JobsDispatched(Event):
    text: ClassVar[str] = "dispatched %(count)d job[s], %(discarded)d discarded, in %(milliseconds).1f ms"
    batch_size: int
    count: int
    discarded: int
    milliseconds: float


class JobsPromoted(Event):
    """Blocked jobs got slots. `by` names the service that promoted them: the settler or maintenance."""

    text: ClassVar[str] = "%(by)s promoted %(count)d blocked job[s]"
    by: str
    count: int


class JobRefused(Event):
    """A job with `on_conflict="discard"` found no free slot when it was enqueued or became due."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "job %(job_id)s was discarded: its concurrency key had no free slot"
    job_id: UUID


class JobOverran(Event):
    """A job runs longer than the duration of its limit, so its slot was freed."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "%(task_path)s %(job_id)s overran its limit: its slot of %(concurrency_key)s was freed for another job"
    )
    job_id: UUID
    task_path: str
    concurrency_key: str


class JobsCleared(Event):
    text: ClassVar[str] = "cleared %(count)d %(status)s job[s]"
    count: int
    status: str


class QueueNotServed(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "ready tasks wait in %(where)s, which no live process serves; start a worker for them:"
        " python manage.py steady_queue --queues NAME"
    )
    where: str


class UnknownLane(Event):
    """Ready tasks are in a lane that no worker of this version serves: a newer version or a manual edit wrote them."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "the queue %(queue_name)r has ready tasks of the lane %(lane)d, which this version cannot run: they stay ready"
    )
    queue_name: str
    lane: int


# -- manual actions ---------------------------------------------------------------------------------------------------


class JobsRetried(Event):
    text: ClassVar[str] = "retried %(count)d failed job[s]"
    job_ids: Sequence[UUID]
    count: int


class JobsDiscarded(Event):
    """One event for each `status` that the discarded jobs had."""

    text: ClassVar[str] = "discarded %(count)d %(status)s job[s]"
    job_ids: Sequence[UUID]
    count: int
    status: str


class JobsRunNow(Event):
    text: ClassVar[str] = "made %(count)d scheduled or blocked job[s] ready"
    job_ids: Sequence[UUID]
    count: int


class QueuePaused(Event):
    """`changed` is False if the queue was already paused."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "queue %(queue_name)s was paused"
    queue_name: str
    changed: bool


class QueueResumed(Event):
    """`changed` is False if the queue was not paused."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "queue %(queue_name)s was resumed"
    queue_name: str
    changed: bool


# -- recurring tasks --------------------------------------------------------------------------------------------------


class RecurringEnqueued(Event):
    """`ticks` holds the key, the due time and the job id of each tick."""

    text: ClassVar[str] = "enqueued %(count)d recurring task[s], %(discarded)d discarded"
    ticks: Sequence[tuple[str, datetime, UUID]]
    count: int
    discarded: int


class RecurringSkipped(Event):
    """Another scheduler enqueued the ticks, or their entries changed. `ticks` holds each key and due time."""

    text: ClassVar[str] = "skipped %(count)d tick[s] that another scheduler enqueued or whose entries changed"
    ticks: Sequence[tuple[str, datetime]]
    count: int


class RecurringFailed(Fault):
    """A tick could not be enqueued; the entry stays enabled."""

    text: ClassVar[str] = "recurring task %(key)s was not enqueued: %(error)s"
    key: str
    error: str

    @property
    def origin(self) -> str:
        return f"recurring task {self.key}"


class RecurringDiscarded(Event):
    """A tick of a task with `on_conflict="discard"` found no free slot."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s was discarded at %(run_at)s: its concurrency key had no free slot"
    key: str
    run_at: datetime


class RecurringUnavailable(Event):
    """This process cannot enqueue an entry that another process may: one of another project, or of newer code."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "recurring task %(key)s cannot be enqueued by this process: %(reason)s"
    key: str
    reason: str


class RecurringDisabled(Event):
    """An entry that no process can enqueue was disabled until it is changed or enabled."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "recurring task %(key)s was disabled: %(reason)s"
    key: str
    reason: str
