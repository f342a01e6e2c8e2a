"""Events of errors that the runtime survives."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import Event, Fault

if TYPE_CHECKING:
    from uuid import UUID

__all__ = [
    "ClaimsLost",
    "DatabaseLost",
    "DatabaseRecovered",
    "JobSetAside",
    "LeaseLost",
    "ListenerLost",
    "LoopBlocked",
    "MaintenanceStepFailed",
    "MaintenanceStepRecovered",
    "OrmCallsWaiting",
    "OutcomesNotWritten",
    "RuntimeFault",
    "SlotsRepaired",
    "TransactionRolledBack",
]


class RuntimeFault(Fault):
    """An error in the runtime, a hook, a subscriber or a signal receiver."""

    text: ClassVar[str] = "%(where)s: %(error)s"
    where: str
    error: str

    @property
    def origin(self) -> str:
        return self.where


class MaintenanceStepFailed(Fault):
    """A step of a maintenance turn failed; the others continue.

    Emitted at the first failure, then at most once a minute.
    """

    text: ClassVar[str] = "maintenance: %(step)s failed (%(times)d in succession); the other steps continue: %(error)s"
    step: str
    error: str
    times: int

    @property
    def origin(self) -> str:
        return f"maintenance: {self.step}"


class MaintenanceStepRecovered(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "maintenance: %(step)s works again after %(times)d failures in %(seconds).0f s"
    step: str
    times: int
    seconds: float


class JobSetAside(Event):
    """The database rejected what maintenance had to write about a job, so it failed with that as its reason."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "the task %(job_id)s was marked as failed because its rows could not be changed: %(error)s"
    job_id: UUID
    error: str


class DatabaseLost(Fault):
    text: ClassVar[str] = "%(service)s: the database is unavailable (%(error)s); retrying"
    service: str
    error: str

    @property
    def origin(self) -> str:
        return self.service


class DatabaseRecovered(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(service)s: the database is available again after %(seconds).1f s"
    service: str
    seconds: float


class LeaseLost(Event):
    """Another process may prune this one from now on: it claims nothing and cancels its async tasks."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "lease lost after %(seconds).0f s without a heartbeat: async tasks are cancelled,"
        " %(threads)d thread[s] still running"
    )
    seconds: float
    threads: int


class OutcomesNotWritten(Event):
    """The process stopped during an outage: maintenance of another process marks these tasks as failed."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "the outcomes of %(count)d task[s] could not be written before the process ended:"
        " the tasks are marked as failed later"
    )
    count: int


class ClaimsLost(Event):
    """Another process ended claims whose tasks still run here: these tasks are cancelled."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "another process ended %(count)d claim[s]: async tasks are cancelled, %(threads)d thread[s] still running"
    )
    count: int
    threads: int


class LoopBlocked(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "the event loop is blocked for %(seconds).1f s by %(task)s, in %(where)s; call blocking code with"
        " asyncio.to_thread or sync_to_async, or make the task a plain function"
    )
    seconds: float
    task: str
    where: str


class OrmCallsWaiting(Event):
    """An ORM call of an async task waits, because other tasks hold all threads with open transactions or cursors."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "%(task)s has waited %(seconds).1f s for an ORM thread: held with an open transaction or cursor by %(holders)s"
    )
    task: str
    seconds: float
    holders: str


class TransactionRolledBack(Event):
    """A transaction was left open by a hook, by a receiver of a signal, or by a call that outlived its task."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(task)s: a transaction was left open on the database '%(database)s' and was rolled back"
    task: str
    database: str


class ListenerLost(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "the notification listener does not respond (%(error)s): polling until it is replaced"
    error: str


class SlotsRepaired(Event):
    """Slots had no owner. This is a defect, so the level is ERROR although the slots were freed."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(count)d concurrency slots had no owner and were freed"
    count: int
