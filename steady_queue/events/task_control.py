"""Events of retries, timeouts, cancellation, expiry and uniqueness."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar

from steady_queue.events.base import Event

if TYPE_CHECKING:
    from uuid import UUID

__all__ = ["JobRetryScheduled", "JobSnoozed"]


class JobRetryScheduled(Event):
    """An attempt failed, and the task is scheduled for the next one."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = (
        "%(task_path)s %(job_id)s failed in attempt %(attempt)d, the next one is in %(delay_seconds).1f s: %(error)s"
    )
    job_id: UUID
    task_path: str
    attempt: int
    delay_seconds: float
    error: str


class JobSnoozed(Event):
    """The task asked to run again later."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "%(task_path)s %(job_id)s runs again in %(delay_seconds).1f s: %(reason)s"
    job_id: UUID
    task_path: str
    delay_seconds: float
    reason: str
