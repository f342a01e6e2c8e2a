"""Watchdog: a thread that watches the event loop from outside.

It reports the task, and the line of code, that blocks the loop. If the lease runs out while the loop is blocked, or the
time after a signal that requests a shutdown, no coroutine can react: the watchdog ends the process. A clean crash is
better than a task that runs twice.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING

from steady_queue import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from steady_queue.aio.lease import Lease
    from steady_queue.aio.process.deadlines import Deadlines
    from steady_queue.events import Events

#: How long the loop may not answer before it counts as blocked, and how often it is asked.
BLOCKED_SECONDS, CHECK_SECONDS = 1.0, 0.5
#: The longest pause between two reports of the same blocked loop.
LONGEST_REPORT_SECONDS = 30.0
#: How often the lease and the deadline are checked while the loop is blocked.
DEADLINE_CHECK_SECONDS = 0.25
#: The exit status of a process that could not stop in order: its lease was lost, its loop was blocked when it had to
#: stop, a supervisor did not stop in time, or the runtime inside an ASGI server failed.
EXIT_FORCED = 75


class Watchdog:
    """Started and stopped by the event loop that it watches."""

    def __init__(
        self,
        *,
        lease: Lease,
        deadlines: Deadlines,
        name_of: Callable[[asyncio.Task[object] | None], str],
        on_lease_lost: Callable[[], None],
        events: Events,
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        self._lease = lease
        self._deadlines = deadlines
        self._name_of = name_of
        self._on_lease_lost = on_lease_lost
        self._events = events
        self._exit_now = exit_now
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._answered = threading.Event()
        self._stop = threading.Event()
        self._reporter: threading.Thread | None = None
        self._longest_lag_seconds = 0.0

    def start(self) -> None:
        threading.Thread(target=self._watch, name="steady-queue-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def take_lag(self) -> float:
        """Return the longest time in seconds that the loop has taken to answer since this was called before."""
        longest, self._longest_lag_seconds = self._longest_lag_seconds, 0.0
        return longest

    def _answer(self, asked_at: float) -> None:
        """Called in the loop."""
        self._longest_lag_seconds = max(self._longest_lag_seconds, time.monotonic() - asked_at)
        self._answered.set()

    def _watch(self) -> None:
        while not self._stop.wait(CHECK_SECONDS):
            self._answered.clear()
            asked_at = time.monotonic()
            try:
                if not self._lease.is_held:
                    # The heartbeat may still sleep: its timer stands still while the machine is suspended.
                    self._loop.call_soon_threadsafe(self._on_lease_lost)
                self._loop.call_soon_threadsafe(self._answer, asked_at)
            except RuntimeError:
                return  # the loop is closed
            if not self._answered.wait(BLOCKED_SECONDS):
                self._wait_for_loop(asked_at)

    def _wait_for_loop(self, asked_at: float) -> None:
        pause = BLOCKED_SECONDS
        while not self._stop.is_set():
            self._report(asked_at)
            pause = min(pause * 2, LONGEST_REPORT_SECONDS)
            until = time.monotonic() + pause
            while (now := time.monotonic()) < until:
                if self._answered.wait(min(DEADLINE_CHECK_SECONDS, until - now)):
                    return
                if not self._lease.is_held or self._deadlines.is_exit_overdue:
                    self._exit_now(EXIT_FORCED)
                    return

    def _report(self, asked_at: float) -> None:
        """Emit an event in a thread of its own: what blocks the loop may be the log that it would be written to."""
        if self._reporter is not None and self._reporter.is_alive():
            return
        task = self._name_of(asyncio.current_task(self._loop))
        where = _current_line(sys._current_frames().get(self._loop_thread))
        event = events.LoopBlocked(seconds=time.monotonic() - asked_at, task=task, where=where)
        self._reporter = threading.Thread(target=self._events.emit, args=(event,), daemon=True)
        self._reporter.start()


def _current_line(frame: FrameType | None) -> str:
    if frame is None:
        return "an unknown place"
    last = traceback.extract_stack(frame)[-1]
    return f"{last.filename}:{last.lineno} {last.name}: {(last.line or '').strip()}"
