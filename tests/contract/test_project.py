"""The seed from its first step to its last: a project with its settings and tasks, migrated and run by commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections

from tests.support.databases.tables import counts, query
from tests.support.processes.manage import manage, write_manage

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = """
from datetime import timedelta
import steady_queue
from steady_queue.configuration import Configuration

SECRET_KEY = "not a secret"
USE_TZ = True
DATABASES = {{"default": {database!r}}}
INSTALLED_APPS = ["django.contrib.contenttypes", "steady_queue", "django_tasks", "seed"]

TASKS = {{
    "default": {{
        "BACKEND": "steady_queue.backend.SteadyQueueBackend",
        "QUEUES": ["default"],
        "OPTIONS": {{}},
    }},
    "steady_queue": {{
        "BACKEND": "steady_queue.backend.SteadyQueueBackend",
        "QUEUES": ["real_time", "low_importance"],
    }},
}}
STEADY_QUEUE = Configuration.Options(
    dispatchers=[
        Configuration.Dispatcher(
            polling_interval=timedelta(seconds=1),
            batch_size=500
        )
    ],
    workers=[
        Configuration.Worker(
            queues=["*"],
            threads=3,
            polling_interval=timedelta(seconds=0.1)
        )
    ]
)
steady_queue.process_heartbeat_interval = timedelta(minutes=5)
"""
TASKS = """
from datetime import timedelta
from steady_queue.jobs.compat import FRAMEWORK
from django.utils.module_loading import import_string
from steady_queue.concurrency import limits_concurrency
from steady_queue.recurring.definitions import recurring

task = import_string(f"{FRAMEWORK}.task")

@task()
def greet(name: str, times: int = 1):
    for _ in range(times):
        print(f"Hello, {name}", flush=True)

@task(priority=10, queue_name='real_time', backend='steady_queue')
def tralalero():
    print('tralala', flush=True)

@limits_concurrency(key=lambda name: name, to=1, duration=timedelta(minutes=5), group='greetings')
@task()
def greet_in_turn(name):
    print(f"In turn, {name}", flush=True)

@recurring(schedule="0 12 * * *", key="rot the brains at noon")
@task()
def ballerina():
    print('capuccina', flush=True)
"""
ENQUEUE = """
from django.utils import timezone
from seed.tasks import *
greet.enqueue('World', 4)
tralalero.enqueue()
tralalero.using(priority=9, queue_name='low_importance').enqueue()
greet.using(run_after=timezone.timedelta(seconds=1)).enqueue('hello')
greet.using(run_after=timezone.timedelta(days=1)).enqueue('tomorrow')
greet_in_turn.enqueue('a')
greet_in_turn.enqueue('a')
"""


class Project:
    def __init__(self, directory: Path, database: dict[str, Any]) -> None:
        self.directory = directory
        app = directory / "seed"
        app.mkdir()
        (app / "__init__.py").touch()
        (app / "tasks.py").write_text(TASKS)
        (directory / "settings.py").write_text(SETTINGS.format(database=database))
        write_manage(directory)

    def manage(self, *words: str) -> str:
        """What the command printed; it must succeed."""
        done = manage(self.directory, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.mark.timeout(120)
@pytest.mark.usually_on("postgres")
def test_the_seed_s_project_is_migrated_checked_and_run_by_the_command(unmigrated: str, tmp_path: Path) -> None:
    """`python manage.py migrate`, then `python manage.py steady_queue`, which drains its queues here."""
    kept = ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT", "OPTIONS")
    project = Project(tmp_path, {name: connections.databases[unmigrated][name] for name in kept})
    assert "Applying steady_queue.0001_initial... OK" in project.manage("migrate")
    assert "no issues" in project.manage("check", "--database", "default", "--fail-level", "WARNING")
    project.manage("shell", "-v", "0", "-c", ENQUEUE)
    printed = project.manage("steady_queue", "--drain")
    # Several threads print at once: their lines may run into each other.
    said = {words: printed.count(words) for words in ("Hello, World", "tralala", "Hello, hello", "In turn, a")}
    assert said == {"Hello, World": 4, "tralala": 2, "Hello, hello": 1, "In turn, a": 2}
    assert counts(unmigrated) == {"scheduled": 1}
    entries = query(unmigrated, "SELECT task_key, schedule FROM steady_queue_recurringtask")
    assert entries == [("rot the brains at noon", "0 12 * * *")]
