"""The app configuration: registers the system checks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.core.exceptions import ImproperlyConfigured

from steady_queue.distribution import MIXED, is_mixed

if TYPE_CHECKING:
    from django.core.checks import CheckMessage


class SteadyQueueConfig(AppConfig):
    name = "steady_queue"
    verbose_name = "Steady Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: Any) -> None:
        # Not a system check: with such files, Django fails before it runs system checks.
        if is_mixed():
            raise ImproperlyConfigured(MIXED)
        super().__init__(app_name, app_module)

    def ready(self) -> None:
        # Registers the system checks of the task framework, which call the checks of each backend.
        import_module("steady_queue.jobs.compat")
        register(_check_project)
        register(_check_schema, Tags.database)


# The checks are imported when they run: most processes never run them.


def _check_project(**kwargs: Any) -> list[CheckMessage]:
    from steady_queue.checks.project import check_project

    return check_project(**kwargs)


def _check_schema(**kwargs: Any) -> list[CheckMessage]:
    from steady_queue.checks.project import check_schema

    return check_schema(**kwargs)
