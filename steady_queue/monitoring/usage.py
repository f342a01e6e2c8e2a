"""Usage: what runs now, by process and by queue."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from steady_queue.db.transactions import run_one
from steady_queue.monitoring.counts import COUNT_LIMIT
from steady_queue.store.operations.capped_counts import count_running

if TYPE_CHECKING:
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class Usage:
    """How many tasks run in each process and of each queue."""

    by_process: Counter[UUID] = field(default_factory=Counter)
    by_queue: Counter[str] = field(default_factory=Counter)


def read_usage() -> Usage:
    """Count the running tasks, at most 10,000, in one query."""
    usage = Usage()
    for count in run_one(lambda sql: count_running(sql, COUNT_LIMIT)):
        usage.by_process[count.process_id] += count.running
        usage.by_queue[count.queue_name] += count.running
    return usage
