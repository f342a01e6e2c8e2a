"""Events of processes, their rows, supervisors and children."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import Event, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

__all__ = [
    "ChildDied",
    "ChildExited",
    "ChildPruned",
    "ChildReplaced",
    "ChildStarted",
    "ChildUnresponsive",
    "ChildrenQuitting",
    "ChildrenStopping",
    "OrphansFailed",
    "ProcessDeregistered",
    "ProcessDeregistrationFailed",
    "ProcessPruned",
    "ProcessQuitting",
    "ProcessRecycling",
    "ProcessRegistered",
    "ProcessRegisteredAgain",
    "ProcessRegistrationFailed",
    "ProcessStarted",
    "ProcessStopRequested",
    "ProcessStopped",
    "ProcessStopping",
    "SupervisorStarted",
    "SupervisorStopped",
    "UnhandledSignal",
]


class ProcessStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s started on %(database)s: %(runs)s"
    name: str
    database: str
    #: Its workers with their queues, its dispatchers and its scheduler, for people.
    runs: str
    queues: str
    coroutines: int
    threads: int


class ProcessStopping(Event):
    """A process stops: tasks may run for `seconds` (0 after an immediate request, None without a limit)."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s is stopping: %(running)d task[s] still running"
    name: str
    running: int
    seconds: float | None


class ProcessQuitting(Event):
    """An immediate shutdown began."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s is stopping immediately: %(running)d task[s] still running"
    name: str
    running: int


class ProcessStopped(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stopped: %(released)d task[s] released, %(abandoned)d could not be stopped"
    name: str
    released: int
    abandoned: int


class ProcessStopRequested(Event):
    """A person or a program has asked the process to stop, by `actions.stop_process`."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s was asked to stop by %(by)s"
    name: str
    by: str


class ProcessRecycling(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "this process is being recycled and claims no more tasks: %(reason)s"
    reason: str


# -- rows of processes ------------------------------------------------------------------------------------------------


class ProcessRegistered(Event):
    text: ClassVar[str] = "%(name)s registered"
    process_id: UUID
    kind: str
    name: str
    pid: int
    hostname: str


class ProcessRegisteredAgain(Event):
    """The process registered again after another process had pruned its row."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s registered again"
    process_id: UUID
    kind: str
    name: str
    pid: int
    hostname: str


class ProcessRegistrationFailed(Event):
    """Emitted once; the process retries until it is registered."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(name)s could not be registered yet: %(error)s"
    process_id: UUID
    kind: str
    name: str
    pid: int
    hostname: str
    error: str


class ProcessDeregistered(Event):
    """The process removed its row. `claims` counts tasks that could not be stopped and were marked as failed."""

    text: ClassVar[str] = "%(name)s deregistered: %(claims)d of its tasks were marked as failed"
    process_id: UUID
    name: str
    claims: int


class ProcessDeregistrationFailed(Fault):
    """Nothing is lost: maintenance of another process prunes the row."""

    text: ClassVar[str] = "%(name)s could not be deregistered: %(error)s"
    process_id: UUID
    name: str
    error: str

    @property
    def origin(self) -> str:
        return "stopping"


class ProcessPruned(Event):
    """Maintenance removed the row of a dead process."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "pruned %(name)s (%(reason)s): %(jobs)d of its tasks were marked as failed, %(retried)d are retried"
    )
    process_id: UUID
    name: str
    reason: str
    jobs: int
    retried: int


class OrphansFailed(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(jobs)d task[s] claimed by no registered process failed"
    jobs: int


# -- supervisors and their children -----------------------------------------------------------------------------------


class SupervisorStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "supervisor %(name)s runs %(processes)d process[es]"
    name: str
    pid: int
    processes: int


class SupervisorStopped(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "supervisor %(name)s stopped"
    name: str
    pid: int


class ChildStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(what)s started as process %(pid)d"
    pid: int
    what: str


class ChildReplaced(Event):
    """A child was started to replace one that exited with `status`, or that is about to exit (None)."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "process %(replacement_pid)d replaces process %(pid)d (%(what)s)"
    supervisor_pid: int
    pid: int
    status: int | None
    replacement_pid: int
    what: str


class ChildExited(Event):
    """A child process exited after a request: a signal, no matter which process sent it, or recycling."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "process %(pid)d (%(what)s) ended: it %(how)s after %(lived_seconds).1f s"
    pid: int
    what: str
    how: str
    lived_seconds: float


class ChildDied(Event):
    """A child process exited without a request. The supervisor replaces it after `restart_delay_seconds`."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = (
        "process %(pid)d (%(what)s) died: it %(how)s after %(lived_seconds).1f s;"
        " it is restarted in %(restart_delay_seconds).1f s"
    )
    pid: int
    what: str
    how: str
    lived_seconds: float
    restart_delay_seconds: float


class ChildUnresponsive(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "process %(pid)d (%(what)s) has not responded for %(seconds).0f s and is killed"
    pid: int
    what: str
    seconds: float


class ChildPruned(Event):
    """The supervisor settled the claims of a child that exited."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "claims of process %(pid)d: %(failed)d failed, %(released)d released, %(retried)d retried"
    pid: int
    failed: int
    released: int
    retried: int


class ChildrenStopping(Event):
    """The supervisor asked its children to stop when their tasks have finished."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(count)d process[es] may finish running tasks for %(seconds).1f s; QUIT or a second Ctrl-C stops them now"
    )
    supervisor_pid: int
    pids: Sequence[int]
    count: int
    seconds: float


class ChildrenQuitting(Event):
    """The supervisor asked its remaining children to stop immediately. `timed_out`: their time was over."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "stopping %(count)d process[es] immediately"
    supervisor_pid: int
    pids: Sequence[int]
    count: int
    timed_out: bool


class UnhandledSignal(Event):
    """A signal without a meaning here, which would have ended the process by default."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(signal)s is not supported and was ignored"
    signal: str
