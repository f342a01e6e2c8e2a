"""Host: the program that a process runs in, and what the process asks of it.

Three kinds: a program that embeds the runtime (`EmbeddedHost`), and in aio/command/hosts.py the command that runs
everything in one process, and a child of a supervisor.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any
    from uuid import UUID

    #: A coroutine of the host that runs as long as the services of its process.
    Companion: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Host(Protocol):
    """Given to the constructor of a process, or of a supervisor, which only calls `finish`."""

    #: Whether `task_ended` is to be called.
    wants_ended_tasks: bool
    #: Whether a supervisor starts another process when this one stops by itself.
    is_supervised: bool

    def announce_shutdown(self, unfinished: Callable[[], set[UUID]], *, is_recycling: bool = False) -> None:
        """A signal, or recycling, stops the process; `unfinished` returns the claims whose tasks run and
        may run again.

        May be called from a signal handler or from any thread.
        """

    def forward_request(self) -> None:
        """Something is asked of the supervisor, which reads it only seldom by itself."""

    def task_ended(self, claim_id: UUID) -> None:
        """A task has ended: it must not run again, even if its outcome cannot be written."""

    def release_after_exit(self, claims: set[UUID]) -> bool:
        """Ask that the claims of tasks that cannot be stopped are released when this process has exited.

        False if nothing will do that: then the process fails these tasks before it exits.
        """

    def exit_now(self, status: int) -> object:
        """End the program: its lease is lost, or its event loop is blocked, while a task runs that cannot be stopped.

        May be called from any thread.
        """

    def finish(self, *, is_busy: bool) -> None:
        """The shutdown is complete; `is_busy` if tasks or hooks still run, for which the interpreter would wait."""


class EmbeddedHost:
    """A program that embeds the runtime, and goes on after the process has stopped."""

    wants_ended_tasks = False
    is_supervised = False

    def __init__(self, leave: Callable[[int], object] = os._exit) -> None:
        self._leave = leave

    def announce_shutdown(self, unfinished: Callable[[], set[UUID]], *, is_recycling: bool = False) -> None:
        pass

    def forward_request(self) -> None:
        pass

    def task_ended(self, claim_id: UUID) -> None:
        pass

    def release_after_exit(self, claims: set[UUID]) -> bool:
        return False

    def exit_now(self, status: int) -> object:
        return self._leave(status)

    def finish(self, *, is_busy: bool) -> None:
        pass
