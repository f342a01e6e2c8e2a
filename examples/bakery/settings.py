"""A small project whose tasks are stored in its own SQLite database."""

import os
from pathlib import Path

import django

from steady_queue.configuration import Configuration

HERE = Path(__file__).resolve().parent

SECRET_KEY = "not a secret: this is an example"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = ["kitchen", "steady_queue"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")  # from Django 6 on, the task framework is a part of Django

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("BAKERY_DATABASE", HERE / "bakery.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
}

QUEUES = ["counter", "kitchen", "deliveries"]

TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": QUEUES}}

#: The worker serves the queues in this order: the counter first.
STEADY_QUEUE = Configuration.Options(
    workers=[Configuration.Worker(queues=QUEUES, coroutines=200, threads=4)],
    dispatchers=[Configuration.Dispatcher()],
)
