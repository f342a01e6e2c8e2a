"""Deadlines: until when each stage of a shutdown may take.

All of them are on one clock, `Clock.monotonic` (CLOCK_BOOTTIME where the system has it). The lease is measured on the
same clock; it goes on while the machine is suspended, like the clock of a process manager that kills a process which
takes too long; and signal handlers and other threads can read it. Only `limit` converts a deadline to the clock of the
event loop, by which anyio cancels.

A request brings deadlines nearer, never further away. A process that is recycled stops without any deadline.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from anyio import CancelScope

import steady_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.aio.timing import Clock

    #: Opens a scope that is cancelled at a deadline.
    ScopeFactory: TypeAlias = Callable[[], AbstractContextManager[CancelScope]]

#: How long async tasks have to stop after they were cancelled, within the time for tasks.
CANCEL_SECONDS = 0.5
#: How long the last outcomes may take to be written: after a graceful and after an immediate request.
FLUSH_SECONDS, FLUSH_NOW_SECONDS = 5.0, 0.5
#: The least time of the `on_stop` hooks; after an immediate request, all their time.
STOP_HOOKS_SECONDS = 0.5
#: How long the `on_exit` hooks have at least: after a graceful and after an immediate request.
EXIT_HOOKS_SECONDS, EXIT_HOOKS_NOW_SECONDS = 1.0, 0.25
#: How much longer than its tasks a process may take that was signalled while its event loop is blocked.
BLOCKED_LOOP_SECONDS = 1.0


class Deadlines:
    """Those of one process. Without a request, and for a process that is recycled, they are infinite."""

    def __init__(self, clock: Clock, *, flush_now_seconds: float | None = None) -> None:
        #: Set by the first request.
        self.requested = asyncio.Event()
        #: How long tasks were given; None if they may take as long as they need.
        self.task_seconds: float | None = None
        #: When async tasks are cancelled, and until when the process waits for tasks.
        self.cancel_tasks_at = self.tasks_by = inf
        #: Until when hooks may run.
        self.hooks_by = inf
        #: Until when outcomes, and recurring tasks of other backends, may take to be written.
        self.flush_by = inf
        #: How long outcomes may take, counted from when the tasks have ended.
        self.flush_seconds = inf
        #: How long the `on_exit` hooks have at least, counted from when they are called.
        self.exit_hooks_seconds = EXIT_HOOKS_SECONDS
        #: When the watchdog ends the process if its event loop is blocked.
        self.exit_by = inf
        self._clock = clock
        self._flush_now_seconds = flush_now_seconds
        self._limits: dict[CancelScope, Callable[[], float]] = {}

    # -- requests -----------------------------------------------------------------------------------------------------

    def request(self, seconds: float | None = None) -> None:
        """Give tasks and hooks so many seconds from now, or `shutdown_timeout`."""
        seconds = shutdown_seconds() if seconds is None else seconds
        self.requested.set()
        self.task_seconds = seconds if self.task_seconds is None else min(seconds, self.task_seconds)
        now = self._clock.monotonic()
        self.tasks_by = min(self.tasks_by, now + seconds)
        self.cancel_tasks_at = min(self.cancel_tasks_at, now + seconds - min(CANCEL_SECONDS, seconds / 2))
        self.hooks_by = min(self.hooks_by, now + max(seconds, STOP_HOOKS_SECONDS))
        self._shorten_flush(FLUSH_SECONDS)
        self._apply()

    def request_now(self) -> None:
        """Give tasks no time, and everything else as little as is sensible."""
        self.exit_hooks_seconds = EXIT_HOOKS_NOW_SECONDS
        self._shorten_flush(FLUSH_NOW_SECONDS if self._flush_now_seconds is None else self._flush_now_seconds)
        self.request(0.0)

    def exit_after(self, seconds: float) -> None:
        """Let the watchdog end the process if its event loop is blocked so many seconds from now.

        Safe in a signal handler and in any thread.
        """
        self.exit_by = min(self.exit_by, self._clock.monotonic() + seconds)

    def _shorten_flush(self, seconds: float) -> None:
        self.flush_seconds = min(self.flush_seconds, seconds)
        self.flush_by = min(self.flush_by, self._clock.monotonic() + seconds)

    # -- deadlines of the stages --------------------------------------------------------------------------------------

    @property
    def is_exit_overdue(self) -> bool:
        return self._clock.monotonic() > self.exit_by

    @property
    def close_seconds(self) -> float:
        """How long connections may take to close, with or without a request."""
        return min(self.flush_seconds, FLUSH_SECONDS)

    def extend_for_cancelled_tasks(self) -> None:
        """Give tasks that were just cancelled time to stop, even if the time for tasks is over."""
        self.tasks_by = max(self.tasks_by, self._clock.monotonic() + CANCEL_SECONDS)

    def start_flush(self) -> None:
        """The tasks have ended: the time for their outcomes begins."""
        self.flush_by = self._clock.monotonic() + self.flush_seconds

    def flush_limit(self, at_most_seconds: float = inf) -> AbstractContextManager[CancelScope]:
        latest = self._clock.monotonic() + at_most_seconds
        return self.limit(lambda: min(self.flush_by, latest))

    def stop_hooks_limit(self) -> ScopeFactory:
        """One time for all hooks: the scope of each hook has the same deadline."""
        latest = self._latest_for_hooks()
        return partial(self.limit, lambda: min(self.hooks_by, latest))

    def exit_hooks_limit(self) -> ScopeFactory:
        """What is left of the time for hooks, and a moment at least."""
        began, latest = self._clock.monotonic(), self._latest_for_hooks()
        return partial(self.limit, lambda: max(min(self.hooks_by, latest), began + self.exit_hooks_seconds))

    def _latest_for_hooks(self) -> float:
        return self._clock.monotonic() + max(shutdown_seconds(), STOP_HOOKS_SECONDS)

    # -- the border between the two clocks ----------------------------------------------------------------------------

    @contextmanager
    def limit(self, deadline: Callable[[], float]) -> Iterator[CancelScope]:
        """Cancel the block at a deadline; a request that brings it nearer counts while the block runs."""
        with CancelScope(deadline=self._on_loop_clock(deadline())) as scope:
            self._limits[scope] = deadline
            try:
                yield scope
            finally:
                del self._limits[scope]

    def _apply(self) -> None:
        for scope, deadline in self._limits.items():
            scope.deadline = self._on_loop_clock(deadline())

    def _on_loop_clock(self, deadline: float) -> float:
        # Not `anyio.current_time`: if sniffio is installed, it fails in the callback of a signal, which has no task.
        return asyncio.get_running_loop().time() + deadline - self._clock.monotonic()


def shutdown_seconds() -> float:
    return steady_queue.shutdown_timeout.total_seconds()
