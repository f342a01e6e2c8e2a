from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

import steady_queue
from steady_queue.errors import ConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.models.job import Job  # noqa: F401, in quotes below


class JobManager(models.Manager["Job"]):
    """Jobs, and the one way of deleting them that keeps the queue whole."""

    def clear_finished_in_batches(
        self,
        batch_size: int = 500,
        finished_before: datetime | None = None,
        class_name: Any = None,
        sleep_between_batches: float = 0,
    ) -> int:
        """Delete jobs that finished before a moment, by default `clear_finished_jobs_after` ago; returns how many.

        `class_name` is a task or its path.
        """
        from steady_queue.cleanup import clear_finished, old

        before = steady_queue.clear_finished_jobs_after if finished_before is None else finished_before
        if before is None:
            raise ConfigurationError("clear_finished_jobs_after is None: say which jobs by finished_before")
        return clear_finished(old(before, task=class_name), batch=batch_size, pause=sleep_between_batches)
