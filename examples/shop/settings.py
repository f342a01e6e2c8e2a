"""A plain Django project: its data and its tasks are in one SQLite file, so one transaction can include both."""

from __future__ import annotations

import os
from pathlib import Path

import django

from steady_queue.configuration import Configuration

HERE = Path(__file__).resolve().parent

SECRET_KEY = "not a secret: this is an example"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "urls"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "orders",
    "stock",
    "steady_queue",
    # The admin has the dashboard.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")  # from Django 6 on, the task framework is a part of Django

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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

STATIC_URL = "static/"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", HERE / "shop.sqlite3"),
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
        },
    }
}

# The worker prints mails in its terminal.
EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
DEFAULT_FROM_EMAIL = "shop@example.com"

# The framework logs each task that starts and succeeds. Here only failures are shown, between the mails.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {name: {"level": "WARNING"} for name in ("django.tasks", "django_tasks")},
}

QUEUES = ["payments", "mail", "warehouse", "stock", "reports"]

TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": QUEUES}}

#: The worker serves the queues in this order: payments first.
STEADY_QUEUE = Configuration.Options(
    workers=[Configuration.Worker(queues=QUEUES)],
    dispatchers=[Configuration.Dispatcher()],
)
