from __future__ import annotations

from django.apps import AppConfig


class SteadyQueueConfig(AppConfig):
    name = "steady_queue"
    verbose_name = "Steady Queue"
    default_auto_field = "django.db.models.BigAutoField"
