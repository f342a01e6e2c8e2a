"""What happens to processes and their supervisors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import Event, Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


class ProcessStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(name)s started on %(database)s: queues %(queues)s, %(coroutines)d coroutines, %(threads)d threads"
    )
    name: str
    database: str
    queues: str
    coroutines: int
    threads: int


class ProcessStopping(Event):
    """Told to stop: its tasks may go on for `seconds`, or for as long as they like."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stops: %(running)d tasks run still"
    name: str
    running: int
    seconds: float | None


class ProcessQuitting(Event):
    """Told to stop at once."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stops at once: %(running)d tasks run still"
    name: str
    running: int


class ProcessStopped(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s stopped: %(released)d tasks given back, %(abandoned)d could not be stopped"
    name: str
    released: int
    abandoned: int


class ProcessRecycling(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "this process takes no more tasks: %(reason)s"
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
    """The process has a row again, after others had declared it dead."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s registered again"
    process_id: UUID
    kind: str
    name: str
    pid: int
    hostname: str


class ProcessRegistrationFailed(Event):
    """Tried again for as long as it takes, and told once."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(name)s could not be registered yet: %(error)s"
    process_id: UUID
    kind: str
    name: str
    pid: int
    hostname: str
    error: str


class ProcessDeregistered(Event):
    """It removed its own row; `claims` of it were failed, because their tasks could not be stopped."""

    text: ClassVar[str] = "%(name)s deregistered: %(claims)d of its tasks were failed"
    process_id: UUID
    name: str
    claims: int


class ProcessDeregistrationFailed(Fault):
    """Nothing is lost: others find what it leaves behind."""

    text: ClassVar[str] = "%(name)s could not be deregistered: %(error)s"
    process_id: UUID
    name: str
    error: str

    @property
    def origin(self) -> str:
        return "stopping"


class ProcessPruned(Event):
    """Another process is dead, and its row was removed."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(name)s is dead (%(reason)s): %(jobs)d of its tasks were failed"
    process_id: UUID
    name: str
    reason: str
    jobs: int


class OrphansFailed(Event):
    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(jobs)d tasks claimed by no registered process were failed"
    jobs: int


# -- supervisors and their children -----------------------------------------------------------------------------------


class SupervisorStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s keeps %(posts)d processes"
    name: str
    pid: int
    posts: int


class SupervisorStopped(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(name)s, the supervisor, stopped"
    name: str
    pid: int


class ChildStarted(Event):
    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(what)s started as process %(pid)d"
    pid: int
    what: str


class ChildReplaced(Event):
    """A child was started in the place of one that has ended, with `status`, or is about to (None)."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "process %(replacement_pid)d takes the place of process %(pid)d, %(what)s"
    supervisor_pid: int
    pid: int
    status: int | None
    replacement_pid: int
    what: str


class ChildExited(Event):
    """A child process ended because it was told to."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "process %(pid)d, %(what)s, left: it %(how)s after %(lived).1f s"
    pid: int
    what: str
    how: str
    lived: float


class ChildDied(Event):
    """A child process ended unasked; `pause`: how long until its post is filled again."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "process %(pid)d, %(what)s, died: it %(how)s after %(lived).1f s; replaced in %(pause).1f s"
    pid: int
    what: str
    how: str
    lived: float
    pause: float


class ChildUnresponsive(Event):
    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "process %(pid)d, %(what)s, has not been heard for %(seconds).0f s and is killed"
    pid: int
    what: str
    seconds: float


class ChildPruned(Event):
    """What became of the tasks that a child had when it ended."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "tasks of process %(pid)d: %(failed)d failed, %(given_back)d given back"
    pid: int
    failed: int
    given_back: int


class ChildrenStopping(Event):
    """The children were told to stop when their tasks have ended."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(count)d processes have %(seconds).1f s to finish their tasks; QUIT, or Ctrl-C once more, stops them at once"
    )
    supervisor_pid: int
    pids: Sequence[int]
    count: int
    seconds: float


class ChildrenQuitting(Event):
    """The children that are left were told to stop at once; `timed_out`: because their time was over."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(count)d processes are told to stop at once"
    supervisor_pid: int
    pids: Sequence[int]
    count: int
    timed_out: bool


class UnhandledSignal(Event):
    """A signal that means nothing to us, and would have ended the process."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "%(signal)s means nothing here and is ignored"
    signal: str
