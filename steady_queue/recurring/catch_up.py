"""Catch-up policies: which ticks are enqueued when some were missed. Pure functions, like the schedules.

Ticks of the last minute are late, not missed, and are enqueued under every policy. Of earlier ticks, `none` enqueues
nothing, `last` the last one unless a later tick is only late, `all` each of them, but at most the last thousand.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.recurring.schedule import Schedule

POLICIES = ("none", "last", "all")
#: A tick that is older has been missed; one that is younger is only late.
MISSED_AFTER = timedelta(minutes=1)
#: The largest number of ticks of one entry that are enqueued together.
MAX_TICKS = 1_000


def choose_ticks(schedule: Schedule, policy: str, after: datetime, until: datetime) -> list[datetime]:
    """Return the ticks in (after, until] that are to be enqueued, in order."""
    recent = max(after, until - MISSED_AFTER)
    late = list(islice(schedule.due(recent, until), MAX_TICKS))
    if policy == "all" and recent > after:
        return _last_ticks(schedule, after, until)
    if policy == "last" and not late:
        missed = schedule.last(after, until)
        return [] if missed is None else [missed]
    return late


def _last_ticks(schedule: Schedule, after: datetime, until: datetime) -> list[datetime]:
    """Return all the ticks, or the last MAX_TICKS of them."""

    def ticks_since(start: datetime) -> list[datetime]:
        return list(islice(schedule.due(start, until), 2 * MAX_TICKS + 1))

    span = min(MISSED_AFTER, until - after)
    late = until
    ticks = ticks_since(start := until - span)
    while len(ticks) < MAX_TICKS and start > after:
        late, span = start, min(2 * span, until - after)
        ticks = ticks_since(start := until - span)
    # The last step back may have found a burst of ticks: a start between it and the step before is close enough.
    while len(ticks) > 2 * MAX_TICKS:
        middle = start + (late - start) / 2
        if len(fewer := ticks_since(middle)) < MAX_TICKS:
            late = middle
        else:
            start, ticks = middle, fewer
    return ticks[-MAX_TICKS:]
