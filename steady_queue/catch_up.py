"""Catching up: which ticks are enqueued when some were missed. Pure, like the schedules.

Ticks of the last minute are only late, and are enqueued under every policy. Of those before it `none` enqueues nothing,
`last` the last one unless a later one is only late, `all` each of them, as far back as the thousand last ones go.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.schedule import Schedule

POLICIES = ("none", "last", "all")
#: How old a tick may be that is late and not missed.
LATE = timedelta(minutes=1)
#: So many ticks of one entry are enqueued at most.
MOST = 1_000


def chosen(schedule: Schedule, policy: str, after: datetime, until: datetime) -> list[datetime]:
    """Those of the ticks in (after, until] that are to be enqueued, in order."""
    recent = max(after, until - LATE)
    late = list(islice(schedule.due(recent, until), MOST))
    if policy == "all" and recent > after:
        return _as_far_back(schedule, after, until) or late
    if policy == "last" and not late:
        missed = schedule.last(after, until)
        return [] if missed is None else [missed]
    return late


def _as_far_back(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """All the ticks, or about as many of the last ones as are allowed."""
    span = LATE
    best: list[datetime] = []
    while True:
        start = max(after, until - span)
        found = list(islice(schedule.due(start, until), MOST + 1))
        if len(found) > MOST:
            return best
        best = found
        if start == after:
            return best
        span *= 2
