"""A job as it is enqueued, claimed and read, with the columns that the statements have in common.

Named tuples, not dataclasses: they are built once per job on the hot path, and turn into columns with one `zip`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


class Lane(IntEnum):
    """Where the function runs: in the event loop, in a thread, or in a child process."""

    ASYNC = 0
    THREAD = 1
    PROCESS = 2


#: The lanes that workers of this version run.
SERVED_LANES = (Lane.ASYNC, Lane.THREAD)


def lane_name(lane: int) -> str:
    """The name of a lane for people; of one that only newer versions know, its number."""
    return Lane(lane).name.lower() if lane in set(Lane) else str(lane)


class OnConflict(IntEnum):
    """What happens to a limited job when every slot of its key is taken."""

    BLOCK = 0
    DISCARD = 1


class FailureKind(IntEnum):
    """Why a failed job does not run again by itself."""

    FAILED = 0
    #: It has failed as often as `max_attempts` allows, more than once.
    EXHAUSTED = 1
    CANCELLED = 2
    #: It was not started in time.
    EXPIRED = 3


class RequestKind(IntEnum):
    """What a process can be asked to do."""

    #: Stop as after TERM.
    STOP = 0
    #: Reply with the stack of a running task.
    STACK = 1


class CancelRequest(NamedTuple):
    """Who wants a task to be cancelled, and why."""

    by: str = ""
    reason: str = ""


class Until(IntEnum):
    """Until when a job holds its unique key: until its first attempt has started, or until it has ended."""

    STARTED = 0
    FINISHED = 1


class OnDuplicate(IntEnum):
    """What happens to a new job whose unique key is taken."""

    REJECT = 0
    RETURN_EXISTING = 1
    REPLACE = 2
    #: Store nothing, and report nothing: for ticks of recurring tasks.
    SKIP = 3


class Uniqueness(NamedTuple):
    """How a new job takes its unique key."""

    until: int
    on_duplicate: int
    #: Microseconds for which the key is taken at least.
    within: int | None = None
    #: Whether the key is a digest of all arguments. No message has it: a short secret could be guessed and checked.
    is_digest: bool = False


class Status(StrEnum):
    """The state of a job: the execution row that it has, or none."""

    READY = "ready"
    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    CLAIMED = "claimed"
    FAILED = "failed"
    FINISHED = "finished"


#: The states of jobs that have ended.
ENDED = frozenset({Status.FINISHED, Status.FAILED})


class NewJob(NamedTuple):
    """A job to be inserted, in the order of its columns."""

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
    #: Microseconds after its claim when its slot is released; None: it keeps the slot as long as it runs.
    overrun_after: int | None = None
    expires_at: datetime | None = None
    unique_key: str | None = None
    #: JSON object.
    metadata: str | None = None
    #: Until when it holds its unique key.
    unique_until: int | None = None


JOB_COLUMNS = NewJob._fields
#: The columns of a job without delay, headers or limit: the first of NewJob's.
PLAIN_JOB_COLUMNS = JOB_COLUMNS[:8]
#: The values of the other columns of such a job.
PLAIN_JOB_REST = (None,) * (len(JOB_COLUMNS) - len(PLAIN_JOB_COLUMNS))


class Claim(NamedTuple):
    """The right to run a job once. Every later write about the job must pass the claim id."""

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
    errors: str | None = None
    unique_key: str | None = None
    metadata: str | None = None
    saved: str | None = None
    scheduled_at: datetime | None = None

    @property
    def waited_seconds(self) -> float | None:
        """How long the job had been due when it was claimed for its first attempt; None when for a later one."""
        if self.attempts:
            return None  # when it was due is not stored
        # The clocks of the enqueuer and the database differ: no wait is shorter than zero.
        return max(0.0, (self.claimed_at - (self.scheduled_at or self.enqueued_at)).total_seconds())

    def label(self) -> str:
        """The job's name in log lines and messages."""
        return f"{self.task_path} {self.job_id}"


#: The job's columns of a Claim, after its id, claim id and time.
CLAIM_JOB_COLUMNS = Claim._fields[3:]
CLAIM_TYPES = "".join(
    {"job_id": "u", "claim_id": "u"}.get(name, "t" if name.endswith("_at") else ".") for name in Claim._fields
)
#: The condition of the index over all queues: see ReadyExecution.
ANY_PRIORITY = "r.priority >= -32768"
#: Selects one row if any queue is paused.
FROM_ANY_PAUSE = "FROM steady_queue_pause LIMIT 1"


class JobRecord(NamedTuple):
    """All columns of a job and its status, for results and for the admin."""

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
    #: When it is due, while it is scheduled.
    due_at: datetime | None = None
    failure_kind: int | None = None
    retries: int = 0
    expires_at: datetime | None = None
    unique_key: str | None = None
    metadata: str | None = None
    progress: str | None = None
    log: str | None = None
    saved: str | None = None
    headers: str | None = None
    old_arguments: str | None = None


class JobState(NamedTuple):
    """The columns of a JobRecord that change while the job is watched."""

    id: UUID
    status: Status
    failure_kind: int | None
    retries: int
    attempts: int
    progress: str | None = None
    log: str | None = None
