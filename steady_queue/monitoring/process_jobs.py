"""The tasks that run in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.db.aliases import queue_alias
from steady_queue.models import ClaimedExecution

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

#: Tasks that are listed.
MAX_RUNNING = 50


class RunningJob(NamedTuple):
    """A task that a process has claimed."""

    id: UUID
    task_path: str
    queue_name: str
    claimed_at: datetime


def read_running(process_id: UUID, limit: int = MAX_RUNNING) -> list[RunningJob]:
    """The tasks of a process that have run longest. The table has only running tasks, so all of it may be read."""
    claims = ClaimedExecution.objects.using(queue_alias()).filter(process_id=process_id).order_by("claimed_at")
    return [
        RunningJob(*row)
        for row in claims.values_list("job_id", "job__task_path", "job__queue_name", "claimed_at")[:limit]
    ]
