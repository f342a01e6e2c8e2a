"""Watchdog: a thread that guards the event loop from outside.

It names the task, and the very line, that keeps the loop from going on. When trust runs out while the loop is blocked,
or the time after a signal to stop, no coroutine can act on it any more: the process ends itself, a clean crash instead
of a double run.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from math import inf
from typing import TYPE_CHECKING

from steady_queue import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from steady_queue.aio.lease import Lease
    from steady_queue.events import Events

#: How long the loop may be silent before it is called blocked, and how often that is looked at, in seconds.
PATIENCE, LOOK_EVERY = 1.0, 0.5
#: The exit status of a process that no longer trusts its claims.
EXIT_LEASE_LOST = 75


class Watchdog:
    """Started and stopped by the loop that it guards."""

    def __init__(
        self,
        *,
        trust: Lease,
        name_of: Callable[[asyncio.Task[object] | None], str],
        lost_trust: Callable[[], None],
        events: Events,
        leave: Callable[[int], object] = os._exit,
    ) -> None:
        self._trust = trust
        self._name_of = name_of
        self._lost_trust = lost_trust
        self._events = events
        self._leave = leave
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._answered = threading.Event()
        self._stop = threading.Event()
        self._leave_by = inf
        self._reporter: threading.Thread | None = None
        self.blocked_count = 0

    def start(self) -> None:
        threading.Thread(target=self._guard, name="steady-queue-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def leave_after(self, seconds: float) -> None:
        """End the process if the loop is blocked so many seconds from now. Safe in the handler of a signal."""
        self._leave_by = min(self._leave_by, time.monotonic() + seconds)

    def _guard(self) -> None:
        while not self._stop.wait(LOOK_EVERY):
            self._answered.clear()
            asked = time.monotonic()
            try:
                if not self._trust.is_held:
                    # The heartbeat may sleep on: its timer stands still while the machine is suspended.
                    self._loop.call_soon_threadsafe(self._lost_trust)
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:
                return  # the loop is closed
            if not self._answered.wait(PATIENCE):
                self._blocked(asked)

    def _blocked(self, asked: float) -> None:
        self.blocked_count += 1
        pause = PATIENCE
        while not self._stop.is_set():
            self._report(asked)
            pause = min(pause * 2, 30.0)
            until = time.monotonic() + pause
            while (now := time.monotonic()) < until:
                if self._answered.wait(min(0.25, until - now)):
                    return
                if not self._trust.is_held or now > self._leave_by:
                    self._leave(EXIT_LEASE_LOST)
                    return

    def _report(self, asked: float) -> None:
        """Tell of it in a thread of its own: what blocks the loop may be the very log that this would be written to."""
        if self._reporter is not None and self._reporter.is_alive():
            return
        task = self._name_of(asyncio.current_task(self._loop))
        where = _place(sys._current_frames().get(self._loop_thread))
        event = events.LoopBlocked(seconds=time.monotonic() - asked, task=task, where=where)
        self._reporter = threading.Thread(target=self._events.emit, args=(event,), daemon=True)
        self._reporter.start()


def _place(frame: FrameType | None) -> str:
    """The line that runs now."""
    if frame is None:
        return "an unknown place"
    last = traceback.extract_stack(frame)[-1]
    return f"{last.filename}:{last.lineno} {last.name}: {(last.line or '').strip()}"
