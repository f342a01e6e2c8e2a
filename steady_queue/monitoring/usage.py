"""Usage: what runs now, by process and by queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steady_queue.db.transactions import run_one
from steady_queue.monitoring.counts import COUNT_LIMIT
from steady_queue.store.operations.monitoring.capped_counts import count_running

if TYPE_CHECKING:
    from uuid import UUID

#: Running tasks whose queues are looked up. With more, the numbers of the queues are estimated from these.
LOOKED_UP = 500


@dataclass(frozen=True, slots=True)
class Usage:
    """How many tasks run in each process and of each queue."""

    by_process: Counter[UUID] = field(default_factory=Counter)
    by_queue: Counter[str] = field(default_factory=Counter)
    #: Whether only some of the tasks were looked up for `by_queue`.
    is_estimated: bool = False


def read_usage(limit: int = COUNT_LIMIT, looked_up: int = LOOKED_UP) -> Usage:
    """Count the running tasks, at most 10,000."""
    counts = run_one(lambda sql: count_running(sql, limit, looked_up))
    running, found = sum(counts.by_process.values()), sum(counts.by_queue.values())
    is_estimated = running > looked_up
    share = running / found if is_estimated and found else 1.0
    by_queue = {name: round(number * share) for name, number in counts.by_queue.items()}
    return Usage(Counter(counts.by_process), Counter(by_queue), is_estimated)
