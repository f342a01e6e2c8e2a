"""Everything at a glance, in ten queries: states, the last hour, queues, processes, and what needs attention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.monitoring.attention import read_attention
from steady_queue.monitoring.process_list import read_processes
from steady_queue.monitoring.queue_list import read_queues
from steady_queue.monitoring.state_counts import read_state_counts
from steady_queue.monitoring.statistics import MAX_NAMES, add_hours, hours_by_queue, read_hour
from steady_queue.monitoring.usage import read_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.monitoring.attention import Attention
    from steady_queue.monitoring.counts import CappedCount
    from steady_queue.monitoring.process_list import ProcessRow
    from steady_queue.monitoring.queue_list import QueueRow
    from steady_queue.monitoring.states import JobState
    from steady_queue.monitoring.statistics import Point

#: If no failures are marked as seen, those of this time need attention.
UNSEEN_PERIOD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Overview:
    """The queue at one moment, by the database's clock."""

    now: datetime
    states: Mapping[JobState, CappedCount]
    #: The last 60 minutes of all queues.
    hour: list[Point]
    queues: list[QueueRow]
    #: The processes without a supervisor, with their children.
    processes: list[ProcessRow]
    attention: list[Attention]

    def as_json(self) -> dict[str, Any]:
        """The overview as values of JSON; the keys are stable."""
        from steady_queue.monitoring.json_values import overview_as_json

        return overview_as_json(self)


def read_overview(seen_at: datetime | None = None) -> Overview:
    """Read the overview. `seen_at`: failures since then need attention; None: those of the last day."""
    since = seen_at or datetime.now(UTC) - UNSEEN_PERIOD
    summary = read_state_counts(since)
    usage = read_usage()
    processes = read_processes(summary.now, usage)
    hours = hours_by_queue(summary.now)
    queues = read_queues(summary.now, usage, processes, hours)
    # Of more queues, not all are read one by one.
    hour = add_hours(hours.values(), summary.now) if len(hours) < MAX_NAMES else read_hour(summary.now)
    period = "in the last day" if seen_at is None else "since those marked as seen"
    attention = read_attention(summary, queues, processes, since, period)
    return Overview(summary.now, summary.states, hour, queues, processes, attention)
