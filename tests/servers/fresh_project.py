"""A project as `django-admin startproject` makes it, with Steady Queue added as the quickstart says."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.support.wait import WAIT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.environments import Environment

SETTINGS = """

import os

INSTALLED_APPS += ["steady_queue", "work"]
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {{"default": {database!r}}}
TASKS = {{"default": {{"BACKEND": "steady_queue.backend.SteadyQueueBackend"}}}}
"""
#: Only what wraps the application is added to the file of `startproject`.
WRAPPER = """
from steady_queue.asgi import SteadyQueue

application = SteadyQueue(application)
"""
URLS = """
from django.urls import path
from work import views

urlpatterns = [path("hello", views.hello), path("sync", views.from_sync), path("async", views.from_async)]
"""
#: Tasks append a short line to a file: several processes may write it, and none tears a line of another.
TASKS = """
import asyncio, os, time
from django.tasks import task

RAN = Path(__file__).with_name("ran")

def note(name, context):
    with RAN.open("a") as file:
        file.write(f"{name} {context.task_result.id}\\n")

@task(takes_context=True)
def sync_task(context):
    time.sleep(0.2)
    note("sync", context)

@task(takes_context=True)
async def async_task(context):
    await asyncio.sleep(0.2)
    note("async", context)
"""
VIEWS = """
from django.http import HttpResponse
from work.tasks import async_task, sync_task

def hello(request):
    return HttpResponse("hello")

def from_sync(request):
    return HttpResponse(" ".join(str(task.enqueue().id) for task in (sync_task, async_task)))

async def from_async(request):
    results = [await task.aenqueue() for task in (sync_task, async_task)]
    return HttpResponse(" ".join(str(result.id) for result in results))
"""
#: Prints the state of each job: its id, how many attempts it has had, and whether it is finished.
STATES = """
from steady_queue.models import Job
for job in Job.objects.all():
    print(job.pk, job.attempts, job.finished_at is not None)
"""


class FreshProject:
    def __init__(self, directory: Path, environment: Environment, database: dict[str, Any]) -> None:
        self.directory = directory
        self.environment = environment
        self.run("django-admin", "startproject", "site_of_mine", ".")
        self.run("python", "manage.py", "startapp", "work")
        self._append("site_of_mine/settings.py", SETTINGS.format(database=database))
        self._append("site_of_mine/asgi.py", WRAPPER)
        self._append("site_of_mine/urls.py", URLS)
        (directory / "work" / "tasks.py").write_text(TASKS)
        (directory / "work" / "views.py").write_text(VIEWS)
        self.run("python", "manage.py", "migrate")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its processes: those of a shell, without the settings of the tests."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DJANGO"))}
        return {**own, **self.environment.variables, "PYTHONUNBUFFERED": "1"}

    def run(self, program: str, *words: str) -> str:
        """Run a program of the environment in the directory of the project; return what it prints."""
        done = subprocess.run(
            [self.environment.programs / program, *words],
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def states(self) -> dict[str, tuple[int, bool]]:
        """How many attempts each job has had, and whether it is finished."""
        lines = self.run("python", "manage.py", "shell", "-v0", "-c", STATES).splitlines()
        return {key: (int(attempts), done == "True") for key, attempts, done in map(str.split, lines)}

    def drain(self) -> None:
        """Run what is left."""
        self.run("python", "manage.py", "steady_queue", "--async", "--drain")

    def runs(self) -> Counter[str]:
        """How often each job ran to its end."""
        file = self.directory / "work" / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(line.split()[1] for line in lines)

    def _append(self, path: str, text: str) -> None:
        with (self.directory / path).open("a") as file:
            file.write(text)
