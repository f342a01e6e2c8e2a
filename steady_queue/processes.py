"""Why a task failed although nothing in it did: its process was lost."""

from __future__ import annotations

from steady_queue.errors import SteadyQueueError


class ProcessExitError(SteadyQueueError, RuntimeError):
    """The process that ran the task ended before the task did."""


class ProcessPrunedError(SteadyQueueError, RuntimeError):
    """The process that ran the task has sent no heartbeat for too long."""


class ProcessMissingError(SteadyQueueError, RuntimeError):
    """The task was claimed by a process that is not registered."""
