"""The task that is measured."""

from __future__ import annotations

from django.conf import settings
from harness import FileStartLog

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

start_log = FileStartLog(settings.PROJECT["start_log"])


@task()
def noop(number: int) -> None:
    start_log.record(number)
