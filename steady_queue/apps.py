from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class SteadyQueueConfig(AppConfig):
    name = "steady_queue"
    verbose_name = "Steady Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Registers the framework's own system checks, which ask each backend for its own.
        import_module("steady_queue.compat")
