"""Every error of Steady Queue, as one tree.

SteadyQueueError
├── ConfigurationError         wrong settings or decorator options; raised before anything runs
├── EnqueueError               the job was not stored, or that is unknown: see `stored`
│   ├── ArgumentError          an argument cannot be stored exactly, or the task has no such argument (also a
│   │   │                      ValueError and a TypeError)
│   │   ├── ConcurrencyKeyError    the key of a limited task cannot be computed or stored
│   │   └── UniqueKeyError         the unique key of a task cannot be computed or stored
│   └── DuplicateTask          another task has the unique key: see `existing_ids`
├── DeserializationError       stored arguments can no longer be restored (also a ValueError)
├── UnknownTaskError           a stored path names no registered task
├── UnknownRecurringTask       no recurring task has this key
├── JobIsRunning               the action is not possible while the job is claimed
├── JobIsNotRunning            no process runs the job, so it has no stack
├── UnknownProcess             no process has this id
├── UnknownRequest             no request to a process has this id
├── TaskTimeout                an attempt took longer than the timeout of the task (also a TimeoutError)
├── TaskCancelled              the task was cancelled: see `by` and `reason`
├── TaskExpired                the task was not started in time
├── ClaimLost                  the process has lost the task that it runs; nothing was written
├── CompletionError            a task cannot be completed in a transaction twice, or after it has ended
├── TransactionEndedByTask     a transactional task ended its transaction, or tried to; not retried
├── TransactionLeftOpen        a task ended with a transaction open, which was rolled back
├── OrmThreadTimeout           an ORM call of an async task waited too long for a thread (also a TimeoutError)
├── ProcessExitError           the process that ran the task exited before the task ended
├── ProcessPrunedError         the process that ran the task sent no heartbeat for too long
├── ProcessMissingError        the process that claimed the task is not registered
└── StoreError                 the database refused a statement; classified by error code, never by message
    ├── StoreUnavailable       connection lost or refused, server busy or stopping: retried without limit, with back-off
    ├── StoreConflict          deadlock, serialization failure, lock timeout: retried immediately, a few times
    ├── StoreDataError         these values can never be stored: not retried
    └── StoreBug               any other error: a defect of Steady Queue or of the schema
        └── StoreNotMigrated   the tables of the queue do not exist, or are not those of this version
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


class SteadyQueueError(Exception):
    """Root of every error raised by Steady Queue."""


class ConfigurationError(SteadyQueueError, ValueError):
    """A setting or an option of a decorator is wrong."""


class EnqueueError(SteadyQueueError):
    """The job was not stored, or it is unknown whether it was.

    `stored` is "no" if nothing was stored and calling again is safe, or "unknown" if the reply of the database was
    lost: then look for the results in `result_ids` before calling again.
    """

    def __init__(
        self, message: str, *, stored: Literal["no", "unknown"] = "no", result_ids: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.stored = stored
        self.result_ids = tuple(result_ids)


class ArgumentError(EnqueueError, ValueError, TypeError):
    """An argument cannot be stored and restored exactly, or the call does not fit the signature of the task."""


class ConcurrencyKeyError(ArgumentError):
    """The concurrency key of a call cannot be computed from its arguments, or cannot be stored."""


class UniqueKeyError(ArgumentError):
    """The unique key of a call cannot be computed from its arguments, or cannot be stored."""


class DuplicateTask(EnqueueError):
    """Another task has the unique key, so nothing was stored. `existing_ids` are the ids of the other tasks."""

    def __init__(self, message: str, *, existing_ids: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.existing_ids = tuple(existing_ids)


class TaskTimeout(SteadyQueueError, TimeoutError):
    """An attempt took longer than the timeout of the task."""


class TaskCancelled(SteadyQueueError):
    """The task was cancelled; `by` and `reason` are those of the request."""

    def __init__(self, by: str = "", reason: str = "") -> None:
        super().__init__(f"cancelled{f' by {by}' if by else ''}{f': {reason}' if reason else ''}")
        self.by = by
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.by, self.reason), self.__dict__


class TaskExpired(SteadyQueueError):
    """The task was not started before it expired."""


class ClaimLost(SteadyQueueError):
    """The process has lost the task that it runs, so nothing was written: another process may run the task."""


class DeserializationError(SteadyQueueError, ValueError):
    """Stored arguments can no longer be restored."""


class UnknownTaskError(SteadyQueueError, LookupError):
    """The path names no task that this project may run."""


class UnknownRecurringTask(SteadyQueueError, LookupError):
    """There is no recurring task with this key, or it may not be removed."""


class JobIsRunning(SteadyQueueError, ValueError):
    """A claimed job cannot be discarded or retried."""


class JobIsNotRunning(SteadyQueueError, ValueError):
    """The stack of a job can be read only while it is claimed."""


class UnknownProcess(SteadyQueueError, LookupError):
    """No process with this id is registered: it has stopped, or was pruned."""


class UnknownRequest(SteadyQueueError, LookupError):
    """No request to a process has this id: requests are deleted after 10 minutes."""


class TransactionLeftOpen(SteadyQueueError):
    """A task ended with a transaction open: it was rolled back, so what the task wrote there is lost."""

    def __init__(self, database: str) -> None:
        super().__init__(
            f"a transaction was left open on the database '{database}': it was rolled back."
            " Leave every atomic block, and commit where autocommit is off"
        )


class CompletionError(SteadyQueueError, RuntimeError):
    """The task cannot be completed in a transaction: it has been already, or has ended."""


class TransactionEndedByTask(SteadyQueueError):
    """A transactional task committed or rolled back by itself, or tried to. The worker commits, after the task."""


class OrmThreadTimeout(SteadyQueueError, TimeoutError):
    """An ORM call waited too long for a thread, because other tasks held them all."""


class StoreError(SteadyQueueError):
    """The database refused a statement.

    `applied` is "unknown" when the statement or its commit may have taken effect although its reply was lost.
    """

    def __init__(self, message: str, *, code: str | None = None, applied: Literal["no", "unknown"] = "no") -> None:
        super().__init__(message)
        self.code = code
        self.applied = applied


class StoreUnavailable(StoreError):
    """The database cannot be reached or cannot write at the moment; try again later."""


class StoreConflict(StoreError):
    """The statement conflicts with another transaction; try again immediately."""


class StoreDataError(StoreError):
    """The database can never store these values."""


class StoreBug(StoreError):
    """The statement or the schema is wrong."""


class StoreNotMigrated(StoreBug):
    """The tables of the queue do not exist in this database, or are not those of this version."""


class ProcessExitError(SteadyQueueError, RuntimeError):
    """The process that ran the task exited before the task ended."""

    # The public path, which is stored with each job that failed this way.
    __module__ = "steady_queue.processes"


class ProcessPrunedError(SteadyQueueError, RuntimeError):
    """The process that ran the task sent no heartbeat for too long."""

    __module__ = "steady_queue.processes"


class ProcessMissingError(SteadyQueueError, RuntimeError):
    """The task was claimed by a process that is not registered."""

    __module__ = "steady_queue.processes"
