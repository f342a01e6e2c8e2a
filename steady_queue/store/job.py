"""A job as it goes in, as it is claimed, and as it is read back.

Named tuples, not dataclasses: they are made once per job on the hot path, and turn into columns with one `zip`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class Lane(IntEnum):
    """Where the function runs: awaited in the event loop, in a thread, or in a child process."""

    ASYNC = 0
    THREAD = 1
    PROCESS = 2


#: The lanes that workers of this version have room for.
SERVED_LANES = (Lane.ASYNC, Lane.THREAD)


class OnConflict(IntEnum):
    """What becomes of a limited job that finds every slot of its key taken."""

    BLOCK = 0
    DISCARD = 1


class Status(StrEnum):
    """Where a job stands: the execution row it has, or none of them."""

    READY = "ready"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    CLAIMED = "claimed"
    FAILED = "failed"
    FINISHED = "finished"


class NewJob(NamedTuple):
    """A job to be stored, in the order of its columns."""

    id: UUID
    queue_name: str
    task_path: str
    arguments: str
    priority: int
    lane: int
    backend: str
    enqueued_at: datetime
    scheduled_at: datetime | None = None
    headers: str | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    on_conflict: int | None = None
    #: Microseconds after its claim when its slot is let go; None: it keeps the slot as long as it runs.
    overrun_after: int | None = None


class Claim(NamedTuple):
    """The right to run a job once. Every later write about it must name its claim id."""

    job_id: UUID
    claim_id: UUID
    claimed_at: datetime
    task_path: str
    arguments: str
    queue_name: str
    priority: int
    lane: int
    backend: str
    attempts: int
    retries: int
    enqueued_at: datetime
    expires_at: datetime | None
    headers: str | None
    concurrency_key: str | None
    concurrency_limit: int | None
    started_at: datetime | None = None
    worker_ids: str | None = None

    def label(self) -> str:
        """The job's name in log lines and messages."""
        return f"{self.task_path} {self.job_id}"


class JobRecord(NamedTuple):
    """A job with all that is known of it, for results and people."""

    id: UUID
    status: Status
    queue_name: str
    task_path: str
    arguments: str
    priority: int
    lane: int
    backend: str
    enqueued_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    last_attempted_at: datetime | None
    finished_at: datetime | None
    failed_at: datetime | None
    claimed_at: datetime | None
    claimed_by: str | None
    attempts: int
    worker_ids: str | None
    errors: str | None
    return_value: str | None
    concurrency_key: str | None
