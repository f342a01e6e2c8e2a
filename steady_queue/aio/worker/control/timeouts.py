"""Timeouts: finds the jobs of a worker that have run longer than their timeout.

An async task is cancelled, and again from time to time if it continues. A function in a thread cannot be stopped: it is
reported with its current stack. Either keeps its claim and its capacity until it has really ended.

There is no timer for each job. All jobs are looked at when the earliest deadline has come, and a job that starts causes
a look only if its deadline is earlier than the next one. So a worker whose tasks end in time looks about once in the
time of its shortest timeout, and a function that starts in a thread does not wake the event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from steady_queue import events
from steady_queue.aio.worker.control.stacks import stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from uuid import UUID

    from steady_queue.aio.worker.running import Running
    from steady_queue.events import Events
    from steady_queue.jobs.running.context import Deadline, TaskControl

#: How long after its timeout a job counts as stuck: an async task that was cancelled, and a function in a thread, which
#: has to notice by itself. The time between two reports of the same job doubles from then on, up to the longest.
STUCK_TASK_SECONDS, STUCK_THREAD_SECONDS, LONGEST_REPORT_SECONDS = 1.0, 10.0, 600.0
#: The shortest and the longest time between two looks.
SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 0.005, 3600.0


class PastTimeout(NamedTuple):
    """A job that continues after its timeout: when it is looked at again, and how long that is after the last look."""

    next_look: float
    pause_seconds: float


class Timeouts:
    """Watches `running`, the jobs of one worker, from its event loop."""

    def __init__(
        self,
        running: Mapping[UUID, Running],
        *,
        finished: Callable[[], Collection[Running]],
        on_stuck: Callable[[Running], None],
        events: Events,
    ) -> None:
        #: The claims of jobs that still run a while after their timeout.
        self.stuck: set[UUID] = set()
        self._running = running
        #: Returns the jobs that have ended in a thread, and whose results the loop has not read yet.
        self._finished = finished
        self._on_stuck = on_stuck
        self._events = events
        self._past_timeout: dict[UUID, PastTimeout] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._next_look = inf

    def watch(self, control: TaskControl) -> None:
        """A job has got a deadline. Called where the job runs: in the event loop, or in a thread."""
        if control.deadline is not None and control.deadline.instant < self._next_look:
            # Many jobs may start at once: the others need no look of their own.
            self._next_look = control.deadline.instant
            with suppress(RuntimeError):  # the loop is closed: nothing waits for the thread any more
                self._loop.call_soon_threadsafe(self._look)

    def forget(self, running: Running) -> None:
        """A job that had timed out has ended."""
        self._past_timeout.pop(running.claim.claim_id, None)
        self.stuck.discard(running.claim.claim_id)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        # Before the jobs are looked at: a thread that sets a deadline after that finds that it has to cause a look.
        self._next_look = inf
        now = monotonic()
        earliest = inf
        # Copied in one step: a job may end while it is looked at.
        for running in list(self._running.values()):
            # One that the shutdown has cancelled is released or abandoned, no matter how long it has run.
            if (deadline := running.deadline) is not None and running.release_reason is None:
                earliest = min(earliest, self._check(running, deadline, now))
        self.close()
        if earliest < inf:
            self._next_look = min(self._next_look, earliest)
            seconds = min(max(earliest - now, SHORTEST_LOOK_SECONDS), LONGEST_LOOK_SECONDS)
            self._timer = self._loop.call_later(seconds, self._look)

    def _check(self, running: Running, deadline: Deadline, now: float) -> float:
        """Stop or report a job whose time is over; returns when it has to be looked at next."""
        past = self._past_timeout.get(running.claim.claim_id)
        due = deadline.instant if past is None else past.next_look
        if now < due or any(finished is running for finished in self._finished()):
            return due
        running.has_timed_out = True
        if running.task is not None:
            running.task.cancel()
        if past is None:
            pause = STUCK_THREAD_SECONDS if running.task is None else STUCK_TASK_SECONDS
        else:
            pause = min(past.pause_seconds * 2, LONGEST_REPORT_SECONDS)
            self.stuck.add(running.claim.claim_id)
        self._past_timeout[running.claim.claim_id] = PastTimeout(now + pause, pause)
        # A coroutine gets a moment to stop before it is reported.
        if running.task is None or past is not None:
            self._report(running, deadline, now)
        if past is not None:
            self._on_stuck(running)
        return now + pause

    def _report(self, running: Running, deadline: Deadline, now: float) -> None:
        claim = running.claim
        self._events.emit(
            events.JobPastTimeout(
                job_id=claim.job_id,
                task_path=claim.task_path,
                seconds=deadline.seconds + now - deadline.instant,
                timeout_seconds=deadline.seconds,
                stack=stack_of(running),
            )
        )
