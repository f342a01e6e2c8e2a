"""A project as `django-admin startproject` makes it, with Steady Queue added as the quickstart says."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

import psycopg

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.environments import Installation
    from tests.support.servers import Postgres

#: A migration of a new project took 25 s on a machine that ran other tests.
COMMAND_TIMEOUT_SECONDS = 120.0
SETTINGS = """

import json, os
from datetime import timedelta
import steady_queue

INSTALLED_APPS += ["steady_queue", "work"]
ALLOWED_HOSTS = ["127.0.0.1"]
DATABASES = {"default": json.loads(os.environ["DATABASE"])}
TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend"}}
# On a busy machine the tasks take longer.
steady_queue.shutdown_timeout = timedelta(seconds=20)
"""
#: A process of the same project may also only enqueue.
WRAPPER = """
from steady_queue.asgi import SteadyQueue

if "WITHOUT_RUNTIME" not in os.environ:
    application = SteadyQueue(application)
"""
URLS = """
from django.urls import path
from work import views

urlpatterns = [path("hello", views.hello), path("sync", views.from_sync), path("async", views.from_async)]
"""
#: Tasks append a short line to a file: several processes may write it, and none tears a line of another.
TASKS = """
import asyncio, time
from pathlib import Path
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
DONE = "SELECT id, attempts, finished_at IS NOT NULL FROM steady_queue_job"


class FreshProject:
    """The project on its own database, which `database` describes as in DATABASES."""

    def __init__(self, directory: Path, installation: Installation) -> None:
        self.directory = directory
        self.installation = installation
        self.database: dict[str, Any] = {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(directory / "db.sqlite3"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
        }

    @classmethod
    def create(cls, directory: Path, installation: Installation) -> FreshProject:
        project = cls(directory, installation)
        project.run("django-admin", "startproject", "site_of_mine", ".")
        project.run("python", "manage.py", "startapp", "work")
        for path, text in (("settings.py", SETTINGS), ("asgi.py", WRAPPER), ("urls.py", URLS)):
            with (directory / "site_of_mine" / path).open("a") as file:
                file.write(text)
        (directory / "work" / "tasks.py").write_text(TASKS)
        (directory / "work" / "views.py").write_text(VIEWS)
        project.run("python", "manage.py", "migrate")
        return project

    def copy(self, directory: Path) -> FreshProject:
        """A project like this one, in another directory and with a copy of its database."""
        shutil.copytree(self.directory, directory, dirs_exist_ok=True)
        return FreshProject(directory, self.installation)

    def move_to(self, server: Postgres, name: str) -> None:
        """Use a new database of the server."""
        server.create_database(name)
        self.database = {"ENGINE": "django.db.backends.postgresql", "NAME": name, "HOST": server.host}
        self.database |= {"PORT": str(server.port), "USER": server.user, "PASSWORD": server.password}
        self.run("python", "manage.py", "migrate")

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its processes: those of a shell, without the settings of the tests."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DJANGO"))}
        variables = {"DATABASE": json.dumps(self.database), "PYTHONUNBUFFERED": "1"}
        # gunicorn makes a socket in the home directory.
        return {**own, **self.installation.variables, **variables, "HOME": str(self.directory)}

    def run(self, program: str, *words: str) -> str:
        """Run a program of the environment in the directory of the project; return what it prints."""
        done = subprocess.run(
            [self.installation.programs / program, *words],
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def drain(self) -> None:
        """Run what is left."""
        self.run("python", "manage.py", "steady_queue", "--async", "--drain")

    # -- what is in its database, and what its tasks have written -----------------------------------------------------

    def jobs(self) -> dict[str, tuple[int, bool]]:
        """How many attempts each job has had, and whether it is finished."""
        return {str(UUID(str(key))): (attempts, bool(done)) for key, attempts, done in self.query(DONE)}

    def query(self, statement: LiteralString) -> list[Any]:
        if "HOST" not in self.database:
            with closing(sqlite3.connect(self.database["NAME"])) as connection:
                return connection.execute(statement).fetchall()
        names = {"NAME": "dbname", "HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password"}
        with psycopg.connect(**{names[key]: value for key, value in self.database.items() if key in names}) as server:
            return server.execute(statement).fetchall()

    def runs(self) -> Counter[str]:
        """How often each job ran to its end."""
        file = self.directory / "work" / "ran"
        lines = file.read_text().splitlines() if file.exists() else []
        return Counter(line.split()[1] for line in lines)
