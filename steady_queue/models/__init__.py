"""The schema: one job row for each enqueued task, and one execution row that is its status.

    job.py         Job: what to run and, when an attempt has ended, its result
    executions.py  ScheduledExecution: not ready before its time
                   BlockedExecution: waits for a concurrency slot
                   ReadyExecution: can be claimed
                   ClaimedExecution: runs in a process
                   FailedExecution: failed, kept until it is retried or discarded (a finished job has no execution row)
    semaphore.py   Semaphore: a concurrency slot that is taken; LockBucket: what promotions lock on MySQL and MariaDB
    uniqueness.py  UniqueKey: a unique key that is taken
    endings.py     Expiry: when a job expires; Cancellation: a running job that is to be cancelled
    schema.py      SchemaVersion: the version of the tables
    process.py     Process: a registered process; Pause: a paused queue
    requests.py    ProcessRequest: what a process is asked to do
    statistics.py  TaskStatistics: how many tasks ran in a minute or an hour, and how long they took
    recurring.py   RecurringTask: a schedule; RecurringExecution: a tick that was enqueued
    fields.py      NameField: text that is compared byte by byte
    pages.py       Overview, Queue, Limit: pages of the dashboard, without tables

Only `steady_queue.store` writes the rows. The models describe the tables to migrations, the admin and the ORM.
"""

from steady_queue.distribution import describe_missing_name
from steady_queue.models import pages as _pages  # noqa: F401, the app registry must know them
from steady_queue.models.endings import Cancellation, Expiry
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
from steady_queue.models.requests import ProcessRequest
from steady_queue.models.schema import SchemaVersion
from steady_queue.models.semaphore import LockBucket, Semaphore
from steady_queue.models.statistics import TaskStatistics
from steady_queue.models.uniqueness import UniqueKey

__all__ = [
    "BlockedExecution",
    "Cancellation",
    "ClaimedExecution",
    "Expiry",
    "FailedExecution",
    "Job",
    "LockBucket",
    "Pause",
    "Process",
    "ProcessRequest",
    "ReadyExecution",
    "RecurringExecution",
    "RecurringTask",
    "ScheduledExecution",
    "SchemaVersion",
    "Semaphore",
    "TaskStatistics",
    "UniqueKey",
]


def __getattr__(name: str) -> object:
    if name == "Queue":
        raise ImportError(describe_missing_name(__name__, name, "steady_queue.queues.Queue"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
