"""Proxy models: the pages of the dashboard that show no table of their own, each with its entry and its permissions.

They have no rows and are not for queries.
"""

from __future__ import annotations

from steady_queue.models.job import Job
from steady_queue.models.process import Pause
from steady_queue.models.semaphore import Semaphore


class Overview(Job):
    class Meta:
        proxy = True
        verbose_name_plural = "overview"
        default_permissions = ("view",)


class Queue(Pause):
    class Meta:
        proxy = True
        default_permissions = ("view",)
        permissions = (("pause_queue", "Can pause and resume queues"), ("clear_queue", "Can clear queues"))


class Limit(Semaphore):
    class Meta:
        proxy = True
        verbose_name = "concurrency limit"
        default_permissions = ("view",)
