"""The settings of the tests, with the benchmarks' tasks, and with a connection of its own for the queries of tasks."""

from __future__ import annotations

from tests.settings import (
    DATABASE_ROUTERS,
    DATABASES,
    DEFAULT_AUTO_FIELD,
    INSTALLED_APPS,
    MIDDLEWARE,
    PASSWORD_HASHERS,
    ROOT_URLCONF,
    SECRET_KEY,
    STATIC_URL,
    TASKS,
    TEMPLATES,
    TIME_ZONE,
    USE_TZ,
)

#: The `application_name` of the connections that tasks open; those of the runtime have another one.
TASKS_NAME = "tasks"

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks"]
DATABASES = {**DATABASES, "data": {**DATABASES["postgres"], "OPTIONS": {"application_name": TASKS_NAME}}}

__all__ = [
    "DATABASES",
    "DATABASE_ROUTERS",
    "DEFAULT_AUTO_FIELD",
    "INSTALLED_APPS",
    "MIDDLEWARE",
    "PASSWORD_HASHERS",
    "ROOT_URLCONF",
    "SECRET_KEY",
    "STATIC_URL",
    "TASKS",
    "TEMPLATES",
    "TIME_ZONE",
    "USE_TZ",
]
