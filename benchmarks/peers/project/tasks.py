"""The task."""

from __future__ import annotations

from django.conf import settings
from harness import FileTally

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

tally = FileTally(settings.PROJECT["tally"])


@task()
def nothing(number: int) -> None:
    tally.count(number)
