"""Settings of the suite: one database of each kind, each with the whole schema.

The servers are started, and their addresses exported, by tests/conftest.py before Django is set up.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

DIRECTORY = os.environ.get("STEADY_QUEUE_TEST_DIRECTORY", ".")


def server(kind: str) -> dict[str, Any]:
    prefix = f"STEADY_QUEUE_TEST_{kind.upper()}_"
    return {
        "HOST": os.environ.get(f"{prefix}HOST", "127.0.0.1"),
        "PORT": os.environ.get(f"{prefix}PORT", ""),
        "USER": os.environ.get(f"{prefix}USER", ""),
        "PASSWORD": os.environ.get(f"{prefix}PASSWORD", ""),
        "NAME": os.environ.get(f"{prefix}NAME", "steady_queue"),
    }


def sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(DIRECTORY, f"{name}.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 5, "init_command": "PRAGMA journal_mode=WAL;"},
    }


DATABASES = {
    "default": sqlite("default"),
    "sqlite": sqlite("sqlite"),
    "postgres": {"ENGINE": "django.db.backends.postgresql", **server("postgres")},
    "mariadb": {
        "ENGINE": "django.db.backends.mysql",
        **server("mariadb"),
        "OPTIONS": {"charset": "utf8mb4"},
    },
}

_RUN_ON = os.environ.get("STEADY_QUEUE_TEST_DATABASES", "postgres,mariadb").split(",")
for _name in {"postgres", "mariadb"}.difference(_RUN_ON):
    del DATABASES[_name]  # this run has no such server

DATABASE_ROUTERS = ["tests.support.databases.routing.EveryDatabase"]

SECRET_KEY = "not a secret: the suite's own"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "steady_queue", "tests.shop"]
if find_spec("django.tasks") is None:
    INSTALLED_APPS.append("django_tasks")  # from Django 6 on, the task framework is a part of Django
TASKS = {
    "default": {
        "BACKEND": "steady_queue.backend.SteadyQueueBackend",
        "QUEUES": ["default", "mail", "reports", "queue_1"],
    },
    "anything": {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": []},
    "steady_queue": {
        "BACKEND": "steady_queue.backend.SteadyQueueBackend",
        "QUEUES": ["real_time", "low_importance"],
    },
}

MIDDLEWARE: list[str] = []
# Only in the processes of pytest itself: to import the admin takes longer than most other processes of the suite need.
if os.environ.get("STEADY_QUEUE_TEST_ADMIN"):
    INSTALLED_APPS += [
        "django.contrib.auth",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "django.contrib.admin",
    ]
    MIDDLEWARE = [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.locale.LocaleMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.dashboard.urls"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
