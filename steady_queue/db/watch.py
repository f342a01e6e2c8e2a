"""Watch: one caller that waits for one job, and how often the job is read for it.

A watch belongs to the watcher, which writes it in its own thread and then calls `wake`. The caller reads it afterwards.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import ENDED, JobRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from steady_queue.store.job import JobState


class Schedule(NamedTuple):
    """The pause before the next read is this part of the time already waited, within bounds."""

    part: float
    shortest_seconds: float
    longest_seconds: float

    def pause_seconds(self, waited_seconds: float) -> float:
        return min(max(waited_seconds * self.part, self.shortest_seconds), self.longest_seconds)


#: Where only reading shows that a job has changed.
POLLING = Schedule(0.1, 0.01, 1.0)
#: Where notifications do. A notification may be lost: a worker may change the job before it knows that it is watched.
LISTENING = Schedule(1.0, 0.02, 2.0)


class Watch:
    """What the watcher knows of a job. `wake` is called in the watcher's thread."""

    def __init__(self, job_id: UUID, wake: Callable[[], None], *, follows: bool = False) -> None:
        self.job_id = job_id
        self.wake = wake
        #: Whether the caller wants every change, with progress and log, or only the end.
        self.follows = follows
        #: What was read last. The record of a job that has ended is complete.
        self.seen: JobState | JobRecord | None = None
        #: Whether nothing more will be read: the job has ended, does not exist, or cannot be read.
        self.is_over = False
        self.error: Exception | None = None
        self.changed_at = time.monotonic()
        self.pause_seconds = 0.0
        self.next_read_at = 0.0
        self.announced_at: float | None = None
        #: Whether a notification says that the job has changed since it was read.
        self.is_hinted = False

    @property
    def due_at(self) -> float:
        """When the job is to be read next, by `time.monotonic()`."""
        return 0.0 if self.is_hinted else self.next_read_at

    def see(self, seen: JobState | JobRecord | None, now: float, schedule: Schedule) -> None:
        """Take over what was read; None if the job does not exist."""
        has_changed = seen is None or self.seen is None or _key(seen) != _key(self.seen)
        self.seen = self.seen if seen is None else seen
        self.is_over = seen is None or seen.status in ENDED
        if has_changed and self.follows:
            self.changed_at = now
        self.pause_seconds = schedule.pause_seconds(now - self.changed_at)
        self.next_read_at = now + self.pause_seconds
        if self.is_over or (has_changed and self.follows):
            self.wake()

    def fail(self, error: Exception) -> None:
        """The job cannot be read."""
        self.error = error
        self.is_over = True
        self.wake()

    @property
    def record(self) -> JobRecord | None:
        """The job, if it has ended; None if it does not exist."""
        return self.seen if self.is_over and isinstance(self.seen, JobRecord) else None


def _key(seen: JobState | JobRecord) -> tuple[object, ...]:
    return (seen.status, seen.failure_kind, seen.retries, seen.attempts, seen.progress, seen.log)
