"""Child: a process that a supervisor has started, and what it hears of it.

A fresh interpreter runs the same command line again. What it is to do stands in a file that its environment names, not
in one more option: so it works with any manage.py, also one that makes up its own arguments and would start supervisors
without end. It has a session of its own: Ctrl-C in the terminal reaches the supervisor alone.
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
from steady_queue.aio.process.watchdog import EXIT_LEASE_LOST
from steady_queue.configuration import Options

if TYPE_CHECKING:
    from collections.abc import MutableMapping

#: The variable that tells a process that it is a child, and from which descriptor it reads its orders.
VARIABLE = "STEADY_QUEUE_CHILD"


class ProcessFigures(NamedTuple):
    """What it tells of."""

    processes: int = 0
    running: int = 0
    ended: int = 0
    failed: int = 0

    def plus(self, other: ProcessFigures) -> ProcessFigures:
        return ProcessFigures(*map(sum, zip(self, other, strict=True)))


class ChildOrders(NamedTuple):
    """What a child is to do."""

    id: UUID
    supervisor_id: UUID
    options: Options
    #: How often it says how it is, in seconds.
    every: float
    #: The descriptor of its end of the line.
    line: int = -1

    def to_json(self) -> str:
        values = {**self._asdict(), "id": self.id.hex, "supervisor_id": self.supervisor_id.hex}
        return json.dumps({**values, "options": self.options.to_dict()})


def orders(environ: MutableMapping[str, str]) -> ChildOrders | None:
    """The orders of this process if it is a child. They are taken out: its own children are not ours."""
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
    line: socket.socket
    #: When it started, and when it was last heard, on the supervisor's clock.
    started: float
    heard: float
    #: What it last said of itself.
    state: dict[str, Any] = field(default_factory=dict)
    #: The claims whose tasks run, while it leaves.
    running_still: set[str] = field(default_factory=set)
    #: The signal that it was last told to stop with, if any.
    told: signal.Signals | None = None
    #: What was read of a line that has not ended yet.
    rest: bytes = b""
    #: A descriptor that can be read when the process has ended, where the system has such a thing.
    exit: int | None = None

    @classmethod
    def start(cls, given: ChildOrders, now: float) -> Child:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            # In a file that has no name: a variable cannot hold the orders of a worker with very many queues.
            with unnamed_file() as file:
                file.write(given._replace(line=theirs.fileno()).to_json())
                file.flush()
                file.seek(0)
                popen = subprocess.Popen(  # noqa: S603, the line that started this process itself
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
        child = cls(given.id, given.options, popen, ours, now, now)
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                child.exit = os.pidfd_open(popen.pid)
        return child

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def is_leaving(self) -> bool:
        """Whether it stops because it was told to, by us or by somebody else, or because it has served its time."""
        return self.told is not None or bool(self.state.get("leaving"))

    def tell(self, number: signal.Signals) -> None:
        self.told = number
        # Not send_signal's own check for its end: the supervisor reaps in one place.
        with suppress(ProcessLookupError):
            self.popen.send_signal(number)

    def listen(self, now: float) -> bool:
        """Read what it has said since; False when it will say no more."""
        try:
            while data := self.line.recv(65536):
                self.heard = now
                *lines, self.rest = (self.rest + data).split(b"\n")
                for line in filter(None, lines):
                    with suppress(ValueError):  # cut off: it was said while we did not listen
                        self._hear(json.loads(line))
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def _hear(self, words: dict[str, Any]) -> None:
        if "running_still" in words:
            self.running_still = set(words.pop("running_still"))
        self.running_still.discard(words.pop("over", ""))
        self.state.update(words)

    def end(self, status: int) -> End:
        """What its end means, once it has been reaped."""
        self.line.close()
        if self.exit is not None:
            os.close(self.exit)
        return End(self, status)


class End(NamedTuple):
    """The end of a child."""

    child: Child
    status: int

    @property
    def was_told(self) -> bool:
        """Whether it ended because it was told to."""
        by_us = self.child.told is not None and -self.status in (signal.SIGTERM, signal.SIGQUIT, self.child.told)
        return self.child.is_leaving and (by_us or self.status in (0, EXIT_LEASE_LOST))

    @property
    def cut_off(self) -> set[UUID]:
        """The claims whose tasks it cut off because it was told to stop: they may run again.

        Nobody else's: of a claim that it did not name, the task may have ended without its outcome being written.
        """
        return {UUID(claim) for claim in self.child.running_still} if self.was_told else set()

    @property
    def refusal(self) -> str | None:
        """Why it did not start to work."""
        refusal: str | None = self.child.state.get("refusal")
        return refusal

    @property
    def how(self) -> str:
        if self.refusal is not None:
            return f"did not start: {self.refusal}"
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
    # Python knows the whole path of a script; the one that was typed may lead nowhere since a chdir.
    return [sys.executable, *(script if part == sys.argv[0] else part for part in sys.orig_argv[1:])]


def what(options: Options) -> str:
    """What a process with these options is, for people."""
    if not options.workers:
        return "dispatcher"
    return f"worker ({', '.join(name for worker in options.workers for name in worker.queues)})"


def unnamed_file() -> IO[str]:
    """In memory where the system has that: a container may have no directory to write to."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("steady-queue-orders"), "w+")
    return tempfile.TemporaryFile("w+")


def new_orders(options: Options, *, supervisor_id: UUID, every: float) -> ChildOrders:
    return ChildOrders(uuid4(), supervisor_id, options, every)


def line_of(given: ChildOrders) -> socket.socket:
    """A child's end of the line, which its own children do not inherit."""
    line = socket.socket(fileno=given.line)
    line.set_inheritable(False)
    return line
