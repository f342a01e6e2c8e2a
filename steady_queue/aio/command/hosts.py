"""Hosts of the command: what a process asks of the program it runs in, if that is the command itself.

`CommandHost`: everything runs in one process. `ChildHost`: the process is the child of a supervisor.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from steady_queue.aio.process.host import EmbeddedHost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.aio.orm_threads.default_executor import DefaultExecutor
    from steady_queue.aio.supervisor.parent_channel import ParentChannel


class CommandHost(EmbeddedHost):
    """The program ends with its process.

    It exits without waiting if tasks, hooks or calls of the default executor still run: the interpreter would wait for
    them, and everything is written. The steps of `before_exit` are called before that; more may be added until then.
    """

    def __init__(self, executor: DefaultExecutor | None = None, before_exit: Sequence[Callable[[], None]] = ()) -> None:
        super().__init__()
        self._executor = executor
        self._before_exit = before_exit

    def finish(self, *, is_busy: bool) -> None:
        if is_busy or (self._executor is not None and self._executor.calls):
            for step in self._before_exit:
                step()
            logging.shutdown()
            os._exit(0)


class ChildHost(CommandHost):
    """The supervisor releases the tasks that still run when this process has exited after a request to stop."""

    is_supervised = True

    def __init__(self, channel: ParentChannel, executor: DefaultExecutor) -> None:
        super().__init__(executor)
        self._channel = channel
        self._unfinished: Callable[[], set[UUID]] | None = None

    def announce_shutdown(self, unfinished: Callable[[], set[UUID]], *, is_recycling: bool = False) -> None:
        self._unfinished = unfinished
        # Before the claims are listed: a task that ends after that is reported by itself.
        self.wants_ended_tasks = True
        self._channel.send_unfinished(unfinished())
        if is_recycling:
            self._channel.send(is_recycling=True)

    def forward_request(self) -> None:
        self._channel.send(has_requests=True)

    def task_ended(self, claim_id: UUID) -> None:
        self._channel.send_ended(claim_id)

    def release_after_exit(self, claims: set[UUID]) -> bool:
        return self._channel.send_unfinished(claims)

    def finish(self, *, is_busy: bool) -> None:
        self._channel.send_last_state()
        super().finish(is_busy=is_busy)

    def exit_now(self, status: int) -> None:
        # Only after a request to stop may tasks run again. A process that exits because another one has pruned it no
        # longer has any claims.
        if self._unfinished is not None:
            self._channel.send_unfinished(self._unfinished())
        self._channel.send_last_state(within_seconds=0.0)  # a lost lease does not wait for a supervisor
        os._exit(status)
