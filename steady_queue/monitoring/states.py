"""JobState: the states in which people look for tasks."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """What a task does now, or how it ended.

    `lost` is a part of `failed`, and `late` of `scheduled`, `retrying` and `ready`.
    """

    FAILED = "failed"
    #: Failed in each of its attempts, more than one.
    EXHAUSTED = "exhausted"
    #: Failed because its process exited or was considered dead.
    LOST = "lost"
    RUNNING = "running"
    READY = "ready"
    #: Due for longer than `LATE_SECONDS`, and neither running nor blocked.
    LATE = "late"
    SCHEDULED = "scheduled"
    #: Scheduled for another attempt.
    RETRYING = "retrying"
    BLOCKED = "blocked"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


#: How long a task may be due before it is late.
LATE_SECONDS = 60
