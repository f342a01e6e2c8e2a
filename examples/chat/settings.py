"""An ASGI project whose requests and tasks share one event loop."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import django

import steady_queue
from steady_queue.configuration import Configuration

HERE = Path(__file__).resolve().parent

SECRET_KEY = "not a secret: this is an example"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "urls"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = ["talk", "steady_queue"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")  # from Django 6 on, the task framework is a part of Django

MIDDLEWARE = [
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("CHAT_DATABASE", HERE / "chat.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
}

TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend"}}

STEADY_QUEUE = Configuration.Options(
    workers=[Configuration.Worker(coroutines=200)],
    dispatchers=[Configuration.Dispatcher()],
)
# Longer than an answer takes, so that the server completes all answers before it stops.
steady_queue.shutdown_timeout = timedelta(seconds=20)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"steady_queue": {"handlers": ["console"], "level": "INFO"}},
}
