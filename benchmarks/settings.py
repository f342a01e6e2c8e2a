"""The suite's settings, with the tasks that are measured, and the connections of their queries told apart."""

from __future__ import annotations

from tests.settings import DATABASES, DEFAULT_AUTO_FIELD, INSTALLED_APPS, SECRET_KEY, TASKS, TIME_ZONE, USE_TZ

#: How the server names the connections that tasks open, as opposed to those of the runtime.
TASKS_NAME = "tasks"

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]
DATABASES = {**DATABASES, "data": {**DATABASES["postgres"], "OPTIONS": {"application_name": TASKS_NAME}}}

__all__ = ["DATABASES", "DEFAULT_AUTO_FIELD", "INSTALLED_APPS", "SECRET_KEY", "TASKS", "TIME_ZONE", "USE_TZ"]
