"""The settings. The database and the backend to measure come from an environment variable."""

from __future__ import annotations

import json
import os

PROJECT = json.loads(os.environ["BENCHMARK_PROJECT"])

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": PROJECT["connection"]["database"],
        # Without it, a worker that closes old connections would open a new one for each task.
        "CONN_MAX_AGE": None,
        **{name.upper(): PROJECT["connection"][name] for name in ("host", "port", "user", "password")},
    }
}
SECRET_KEY = "not a secret: the benchmark's own"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", *PROJECT["apps"], "project"]
TASKS = {"default": {"BACKEND": PROJECT["backend"]}}

if PROJECT["threads"]:
    from steady_queue.configuration import Configuration

    STEADY_QUEUE = Configuration.Options(
        workers=[Configuration.Worker(threads=PROJECT["threads"])], only_work=True, skip_recurring=True
    )
