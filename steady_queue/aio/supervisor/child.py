"""Child: a process that a supervisor has started, and the messages that it sends.

A new interpreter runs the same command line again. Its orders are in an unnamed file; an environment variable has its
descriptor. They are not in an option: so it works with every manage.py, even one that sets its own arguments and would
otherwise start supervisors without end. It has a session of its own, so that Ctrl-C in the terminal signals only the
supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import steady_queue
from steady_queue.aio.process.watchdog import EXIT_FORCED
from steady_queue.configuration import Options

if TYPE_CHECKING:
    from collections.abc import MutableMapping

#: The variable that makes a process a child: the descriptor from which it reads its orders.
VARIABLE = "STEADY_QUEUE_CHILD"


class ProcessFigures(NamedTuple):
    """How many processes there are, and how many tasks run, have succeeded, have failed and were released."""

    processes: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    released: int = 0

    def plus(self, other: ProcessFigures) -> ProcessFigures:
        return ProcessFigures(*map(sum, zip(self, other, strict=True)))

    def minus(self, other: ProcessFigures) -> ProcessFigures:
        """The difference, without negative numbers: a process that was killed is missing in the later figures."""
        return ProcessFigures(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))


class ChildOrders(NamedTuple):
    """What a supervisor passes to a child."""

    id: UUID
    supervisor_id: UUID
    options: Options
    #: How often the child reports its state.
    report_seconds: float
    #: The descriptor of the child's end of the channel.
    channel_fd: int = -1

    def to_json(self) -> str:
        values = {**self._asdict(), "id": self.id.hex, "supervisor_id": self.supervisor_id.hex}
        return json.dumps({**values, "options": self.options.to_dict()})


def read_orders(environ: MutableMapping[str, str]) -> ChildOrders | None:
    """The orders of this process if it is a child. The variable is removed: processes that a task starts are none."""
    descriptor = environ.pop(VARIABLE, None)
    if descriptor is None:
        return None
    with os.fdopen(int(descriptor)) as file:
        values = json.load(file)
    ids = {name: UUID(values[name]) for name in ("id", "supervisor_id")}
    return ChildOrders(**{**values, **ids, "options": Options.from_dict(values["options"])})


@dataclass(slots=True, eq=False)
class Child:
    """One started process."""

    id: UUID
    options: Options
    popen: subprocess.Popen[bytes]
    channel: socket.socket
    #: When it started, and when its last message arrived, on the supervisor's clock.
    started_at: float
    last_message_at: float
    #: What its messages said, by name.
    state: dict[str, Any] = field(default_factory=dict)
    #: While it stops: the claims whose tasks still run.
    unfinished: set[str] = field(default_factory=set)
    #: The last signal that the supervisor has sent to stop it.
    signal_sent: signal.Signals | None = None
    #: A descriptor that becomes readable when the process exits, where the system has such descriptors.
    exit_fd: int | None = None
    #: The beginning of a message that has not arrived completely.
    _partial: bytes = b""

    @classmethod
    def start(cls, orders: ChildOrders, now: float) -> Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            # In an unnamed file: a variable cannot hold the orders of a worker with very many queues.
            with unnamed_file() as file:
                file.write(orders._replace(channel_fd=theirs.fileno()).to_json())
                file.flush()
                file.seek(0)
                popen = subprocess.Popen(  # noqa: S603, the command line that started this process
                    command_line(),
                    cwd=steady_queue.STARTED_IN or None,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, VARIABLE: str(file.fileno())},
                    pass_fds=[theirs.fileno(), file.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        child = cls(orders.id, orders.options, popen, ours, now, now)
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                child.exit_fd = os.pidfd_open(popen.pid)
        return child

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def figures(self) -> ProcessFigures:
        """The numbers of its last message."""
        return ProcessFigures(1, *(int(self.state.get(name, 0)) for name in ProcessFigures._fields[1:]))

    @property
    def is_stopping(self) -> bool:
        """Whether it stops because of a signal, from the supervisor or not, or because it is recycled."""
        return self.signal_sent is not None or bool(self.state.get("is_stopping"))

    def send_signal(self, number: signal.Signals) -> None:
        self.signal_sent = number
        # It may exit after Popen's own check; the supervisor reaps it in one place, Children._reap.
        with suppress(ProcessLookupError):
            self.popen.send_signal(number)

    def read_messages(self, now: float) -> bool:
        """Read the messages that have arrived; False if no more will."""
        try:
            while data := self.channel.recv(65536):
                self.last_message_at = now
                *lines, self._partial = (self._partial + data).split(b"\n")
                for line in filter(None, lines):
                    with suppress(ValueError):  # cut off: the supervisor did not read for a while
                        self._handle(json.loads(line))
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def _handle(self, message: dict[str, Any]) -> None:
        if "unfinished" in message:
            self.unfinished = set(message.pop("unfinished"))
        self.unfinished.discard(message.pop("ended_claim", ""))
        self.state.update(message)

    def close(self, status: int) -> ChildExit:
        """Close its descriptors once it has been reaped."""
        self.channel.close()
        if self.exit_fd is not None:
            os.close(self.exit_fd)
        return ChildExit(self, status)


class ChildExit(NamedTuple):
    """How a child has exited, and what that means for its tasks."""

    child: Child
    status: int

    @property
    def was_requested(self) -> bool:
        """Whether it exited because of a signal to stop, or because it was recycled."""
        sent = self.child.signal_sent
        by_us = sent is not None and -self.status in (signal.SIGTERM, signal.SIGQUIT, sent)
        return self.child.is_stopping and (by_us or self.status in (0, EXIT_FORCED))

    @property
    def released_claims(self) -> set[UUID]:
        """The claims whose tasks ran when a requested exit interrupted them: these tasks may run again.

        No other claims: the task of a claim that the child did not name may have ended without a written outcome.
        """
        return {UUID(claim) for claim in self.child.unfinished} if self.was_requested else set()

    @property
    def start_problem(self) -> str | None:
        """Why it did not start to work."""
        start_problem: str | None = self.child.state.get("start_problem")
        return start_problem

    @property
    def summary(self) -> str:
        if self.start_problem is not None:
            return f"did not start: {self.start_problem}"
        if self.status >= 0:
            return f"exited with status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"


def command_line() -> list[str]:
    """The command line that started this process, with the interpreter's own options."""
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    if script is None or getattr(main, "__spec__", None) is not None:
        return [sys.executable, *sys.orig_argv[1:]]
    # The absolute path of the script: the one that was typed may be relative, and the directory may have changed.
    return [sys.executable, *(script if part == sys.argv[0] else part for part in sys.orig_argv[1:])]


def describe_role(options: Options) -> str:
    """What a process with these options runs, for events and errors."""
    if not options.workers:
        return "dispatcher"
    return f"worker ({'; '.join(str(worker.selection) for worker in options.workers)})"


def unnamed_file() -> IO[str]:
    """A file in memory where the system has such files: a container may have no writable directory."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("steady-queue-orders"), "w+")
    return tempfile.TemporaryFile("w+")


def new_orders(options: Options, *, supervisor_id: UUID, report_seconds: float) -> ChildOrders:
    return ChildOrders(uuid4(), supervisor_id, options, report_seconds)


def open_channel(orders: ChildOrders) -> socket.socket:
    """The child's end of the channel, which processes that a task starts do not inherit."""
    connection = socket.socket(fileno=orders.channel_fd)
    connection.set_inheritable(False)
    return connection
