"""Tally: how many tasks a process has ended, counted from what it tells."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from steady_queue import events

if TYPE_CHECKING:
    from steady_queue.events import Event


class Tally:
    """A subscriber of events."""

    #: What it counts.
    KINDS = (events.JobsSettled, events.JobFailed, events.JobReleased)

    def __init__(self, limit: int | None = None) -> None:
        self.ended = 0
        self.failed = 0
        #: Set when so many have ended.
        self.reached = asyncio.Event()
        self._limit = inf if limit is None else limit

    def __call__(self, event: Event) -> None:
        if isinstance(event, events.JobsSettled):
            self.ended += event.count
        elif isinstance(event, events.JobFailed):
            self.failed += 1
        elif isinstance(event, events.JobReleased):
            self.ended -= 1
        if self.ended >= self._limit:
            self.reached.set()
