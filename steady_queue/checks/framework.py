"""System checks of the task framework: whether TASKS is set, and which of the two frameworks the project uses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.checks import Warning

from steady_queue.backend import SteadyQueueBackend
from steady_queue.events.base import name_of
from steady_queue.jobs.compat import FRAMEWORK, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.core.checks import CheckMessage


def check_framework() -> Iterator[CheckMessage]:
    """All problems of the framework's app and of its signals."""
    yield from _check_installed()
    yield from _check_receivers()


def check_tasks() -> Iterator[CheckMessage]:
    """Whether TASKS is set. A project may choose other backends; Django's default is not a choice."""
    is_set: bool = settings.is_overridden("TASKS")  # type: ignore[misc]
    if not is_set:
        text = (
            "TASKS is not set, so no task is stored: enqueue() runs each task at once, in the process that calls it, "
            "for example in the web process."
        )
    elif not settings.TASKS:
        text = "TASKS has no entry, so no task can be stored in the database."
    else:
        return
    yield Warning(
        text,
        hint="In settings.py, set TASKS = {'default': {'BACKEND': 'steady_queue.backend.SteadyQueueBackend'}}.",
        id="steady_queue.W011",
    )


def _check_installed() -> Iterator[CheckMessage]:
    if not NATIVE and not apps.is_installed("django_tasks"):
        yield Warning(
            f"'{FRAMEWORK}' is not in INSTALLED_APPS, as its documentation requires.",
            hint="Add it to INSTALLED_APPS.",
            id="steady_queue.W001",
        )


def _check_receivers() -> Iterator[CheckMessage]:
    """Whether receivers wait for signals of django_tasks where the framework is Django's own."""
    other = sys.modules.get("django_tasks.signals") if NATIVE else None
    if other is None:
        return
    for name in ("task_enqueued", "task_started", "task_finished"):
        sync_receivers, async_receivers = getattr(other, name)._live_receivers(SteadyQueueBackend)
        for receiver in (*sync_receivers, *async_receivers):
            # django_tasks itself connects receivers that write log lines.
            if getattr(receiver, "__module__", None) != other.__name__:
                yield Warning(
                    f"The receiver {name_of(receiver)} is connected to django_tasks.signals.{name}, which is not sent: "
                    "this version of Django has its own task framework.",
                    hint=f"Connect it to django.tasks.signals.{name}. Import exceptions from django.tasks.exceptions.",
                    id="steady_queue.W015",
                )
