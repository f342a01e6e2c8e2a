"""The settings of the suite with the admin, with tasks of every kind, and with a strict Content-Security-Policy."""

from __future__ import annotations

import os
from datetime import timedelta

os.environ["STEADY_QUEUE_TEST_ADMIN"] = "1"  # before the settings of the suite are imported

import steady_queue
from steady_queue.configuration import Configuration
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, MIDDLEWARE

steady_queue.database = os.environ["STEADY_QUEUE_BROWSER_DATABASE"]
steady_queue.process_heartbeat_interval = timedelta(seconds=1)
# Tasks that run when the worker stops are sample tasks: no test waits for them.
steady_queue.shutdown_timeout = timedelta(seconds=0.2)

INSTALLED_APPS = [*INSTALLED_APPS, "tests.browser.project"]
MIDDLEWARE = ["tests.browser.project.policy.strict_policy", *MIDDLEWARE]
ALLOWED_HOSTS = ["127.0.0.1"]
STEADY_QUEUE = Configuration.Options(
    workers=[Configuration.Worker(queues=["default", "mail", "queue_1"], threads=4)],
    dispatchers=[Configuration.Dispatcher(polling_interval=timedelta(seconds=0.1))],
    recurring_tasks=[
        Configuration.RecurringTask(
            key="nightly report",
            class_name="tests.browser.project.tasks.quick",
            schedule="0 3 * * *",
            arguments=["nightly"],
            time_zone="Europe/Berlin",
            description="Counts what was sold",
        ),
        Configuration.RecurringTask(
            key="exchange rates", class_name="tests.browser.project.tasks.quick", schedule="0 */6 * * *"
        ),
    ],
)
