"""Catching up: which ticks are enqueued when some were missed. Pure, like the schedules.

Ticks of the last minute are only late, and are enqueued under every policy. Of those before it `none` enqueues nothing,
`last` the last one unless a later one is only late, `all` each of them, but not more than the last thousand.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.recurring.schedule import Schedule

POLICIES = ("none", "last", "all")
#: How old a tick may be that is late and not missed.
MISSED_AFTER = timedelta(minutes=1)
#: So many ticks of one entry are enqueued at most.
MAX_TICKS = 1_000


def choose_ticks(schedule: Schedule, policy: str, after: datetime, until: datetime) -> list[datetime]:
    """Those of the ticks in (after, until] that are to be enqueued, in order."""
    recent = max(after, until - MISSED_AFTER)
    late = list(islice(schedule.due(recent, until), MAX_TICKS))
    if policy == "all" and recent > after:
        return _as_far_back(schedule, after, until)
    if policy == "last" and not late:
        missed = schedule.last(after, until)
        return [] if missed is None else [missed]
    return late


def _as_far_back(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """All the ticks, or as many of the last ones as are allowed."""

    def found(start: datetime) -> list[datetime]:
        return list(islice(schedule.due(start, until), 2 * MAX_TICKS + 1))

    span = min(MISSED_AFTER, until - after)
    late = until
    ticks = found(start := until - span)
    while len(ticks) < MAX_TICKS and start > after:
        late, span = start, min(2 * span, until - after)
        ticks = found(start := until - span)
    # The last step back may have met a burst of ticks: between it and the one before lies a start that is close enough.
    while len(ticks) > 2 * MAX_TICKS:
        middle = start + (late - start) / 2
        if len(fewer := found(middle)) < MAX_TICKS:
            late = middle
        else:
            start, ticks = middle, fewer
    return ticks[-MAX_TICKS:]
