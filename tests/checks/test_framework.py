"""Whether TASKS is set, whether the app is installed, and receivers of the framework that is not in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.checks.project import check_project
from steady_queue.jobs.compat import NATIVE
from tests.support.processes.manage import manage, write_manage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

SETTINGS = """
SECRET_KEY = "not a secret"
USE_TZ = True
DATABASES = {"default": {
    "ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3", "OPTIONS": {"transaction_mode": "IMMEDIATE"}
}}
INSTALLED_APPS = ["shop"]
"""
OUR_APPS = 'INSTALLED_APPS += ["steady_queue", "django_tasks"]\n'
OUR_TASKS = 'TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend"}}\n'
TASKS = """
from steady_queue import task

@task
def send(order):
    return order
"""
MISSING_APP = "'steady_queue' is not in INSTALLED_APPS: add it there, then run: python manage.py migrate"
MISSING_TABLES = "the database 'default' has no tables of Steady Queue; run: python manage.py migrate\n"
ENQUEUE = "from shop.tasks import send; send.enqueue(1)"
ENQUEUE_ASYNC = "import asyncio; from shop.tasks import send; asyncio.run(send.aenqueue(1))"


class Project:
    """A new project with one app, and the output of its commands."""

    def __init__(self, directory: Path, *settings: str, models: str = "") -> None:
        self.directory = directory
        app = directory / "shop"
        app.mkdir()
        for name, text in (("__init__", ""), ("tasks", TASKS), ("models", models)):
            (app / f"{name}.py").write_text(text)
        (directory / "settings.py").write_text("".join([SETTINGS, *settings]))
        write_manage(directory)

    def manage(self, *words: str) -> str:
        done = manage(self.directory, *words)
        return done.stdout + done.stderr


def test_without_the_app_the_check_reports_it_if_an_app_imports_a_task(tmp_path: Path) -> None:
    printed = Project(tmp_path, OUR_TASKS, models="import shop.tasks").manage("check")
    assert printed.count("(steady_queue.E001) 'steady_queue' is not in INSTALLED_APPS.") == 1
    assert "HINT: Add it to INSTALLED_APPS, then run: python manage.py migrate." in printed


def test_without_the_app_the_first_enqueue_reports_it(tmp_path: Path) -> None:
    project = Project(tmp_path, OUR_TASKS)
    assert "no issues" in project.manage("check")
    for statement in (ENQUEUE, ENQUEUE_ASYNC):
        printed = project.manage("shell", "-v", "0", "-c", statement)
        assert printed.endswith(f"steady_queue.errors.ConfigurationError: {MISSING_APP}\n"), printed


def test_before_migrate_the_first_enqueue_names_the_command(tmp_path: Path) -> None:
    project = Project(tmp_path, OUR_APPS, OUR_TASKS)
    for statement in (ENQUEUE, ENQUEUE_ASYNC):
        printed = project.manage("shell", "-v", "0", "-c", statement)
        assert printed.endswith(f"EnqueueError: task shop.tasks.send was not stored: {MISSING_TABLES}"), printed


def test_a_project_that_does_not_set_tasks_is_warned_of(tmp_path: Path) -> None:
    printed = Project(tmp_path, OUR_APPS).manage("check")
    assert "(steady_queue.W011) TASKS is not set, so no task is stored: enqueue() runs each task at once" in printed
    assert "set TASKS = {'default': {'BACKEND': 'steady_queue.backend.SteadyQueueBackend'}}" in printed


def test_a_project_that_chooses_another_backend_is_not_warned_of(tmp_path: Path) -> None:
    framework = "django.tasks" if NATIVE else "django_tasks"
    chosen = f'TASKS = {{"default": {{"BACKEND": "{framework}.backends.dummy.DummyBackend"}}}}\n'
    assert "no issues" in Project(tmp_path, OUR_APPS, chosen).manage("check")


# -- the framework that is not in use ---------------------------------------------------------------------------------


def on_finished(**kwargs: Any) -> None:
    pass


def found() -> list[str]:
    return [str(message.msg) for message in check_project() if message.id == "steady_queue.W015"]


def test_a_receiver_of_django_tasks_is_warned_of_where_django_has_tasks() -> None:
    from django_tasks.signals import task_finished

    assert found() == []
    task_finished.connect(on_finished)
    try:
        messages = found()
    finally:
        task_finished.disconnect(on_finished)
    assert [message.partition(",")[0] for message in messages] == (
        ["The receiver on_finished is connected to django_tasks.signals.task_finished"] if NATIVE else []
    )
