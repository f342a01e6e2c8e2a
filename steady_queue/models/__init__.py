"""The schema: one job row for each task enqueued, and exactly one execution row that says where it stands.

    Job                 what to run and, once an attempt has ended, what came of it
    ReadyExecution      may be claimed now            ScheduledExecution  not before its time
    BlockedExecution    waits for a concurrency slot  ClaimedExecution    runs in a process
    FailedExecution     ended badly, kept for people  (a finished job has none)
    Semaphore           one row for each concurrency slot that is taken
    Process, Pause      who is working; which queues rest
    RecurringTask, RecurringExecution                 schedules, and the ticks already enqueued

Rows are written by `steady_queue.store` alone. These models describe the tables to migrations, the admin and people.
"""

from steady_queue.models.executions import (
    BlockedExecution,
    ClaimedExecution,
    FailedExecution,
    ReadyExecution,
    ScheduledExecution,
)
from steady_queue.models.job import Job
from steady_queue.models.process import Pause, Process
from steady_queue.models.recurring import RecurringExecution, RecurringTask
from steady_queue.models.semaphore import LockBucket, Semaphore

__all__ = [
    "BlockedExecution",
    "ClaimedExecution",
    "FailedExecution",
    "Job",
    "LockBucket",
    "Pause",
    "Process",
    "ReadyExecution",
    "RecurringExecution",
    "RecurringTask",
    "ScheduledExecution",
    "Semaphore",
]
