"""Tally: how many tasks a process has ended, counted from what it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.aio import events

if TYPE_CHECKING:
    from steady_queue.aio.events import Event


class Tally:
    """A subscriber of events."""

    def __init__(self) -> None:
        self.ended = 0
        self.failed = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.JobsSettled):
            self.ended += event.count
        elif isinstance(event, events.JobFailed):
            self.failed += 1
        elif isinstance(event, events.JobReleased):
            self.ended -= 1
