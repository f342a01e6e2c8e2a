"""Projects in which the typical mistakes are made, and the table of their messages.

`python -m tests.docs.mistake_projects` makes all mistakes and writes the table of docs/troubleshooting.md.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from tests.docs.helpers import python
from tests.docs.mistakes import MISTAKES
from tests.docs.pages import page
from tests.support.processes.manage import write_manage

if TYPE_CHECKING:
    from tests.docs.mistakes import Mistake

PAGE = page("docs/troubleshooting.md")
HEADER = "| mistake | message |\n|---|---|\n"
#: A vertical bar inside a table.
BAR = "\\|"

SETTINGS = """
from datetime import timedelta
import django
import steady_queue
from steady_queue.configuration import Configuration

SECRET_KEY = "not a secret"
ROOT_URLCONF = "shop.urls"
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "shop.sqlite3",
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "steady_queue", "shop"]
if django.VERSION < (6,):
    INSTALLED_APPS.append("django_tasks")
TASKS = {"default": {"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": ["default", "mail"]}}
"""
MODELS = """
from django.db import models

class Order(models.Model):
    number = models.IntegerField()
"""
TASKS = """
from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from steady_queue.recurring_task import recurring
from shop.models import Order

@task
def send_receipt(order, *, copy=False):
    pass

@task
async def ask(question):
    return question
"""
#: Executes the code after it and prints the exception as Python would, without the traceback.
SCRIPT = """
import asyncio, datetime, io, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django
try:
    django.setup()
    from shop.models import Order
    from shop import tasks
    from shop.tasks import *
{code}
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
#: What the commands print around their messages.
_FRAME = re.compile(
    r"^(System check identified .*|SystemCheckError: .*|ERRORS:|WARNINGS:|Traceback .*|  .*|\s*)$|"
    r"^(?:\d{4}-\d\d-\d\d |)\d\d:\d\d:\d\d\S* +"
)
_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_LOOP_BLOCKED = "the event loop is blocked for"
_BLOCKED_SECONDS = re.compile(rf"{_LOOP_BLOCKED} [\d.]+ s")


class Project:
    """A project in an empty directory, in which one mistake is made; its database is a copy of a migrated one."""

    def __init__(self, directory: Path, database: Path | None = None) -> None:
        self.directory = directory
        self._database = database
        (directory / "shop").mkdir(parents=True)
        files = {"__init__.py": "", "urls.py": "urlpatterns = []", "models.py": MODELS, "tasks.py": TASKS}
        for name, text in files.items():
            (directory / "shop" / name).write_text(text)
        write_manage(directory)
        (directory / "settings.py").write_text(SETTINGS)

    def answer(self, mistake: Mistake) -> str:
        """Make the mistake and return the message in one line, without what differs between two runs."""
        if mistake.is_migrated and self._database is not None:
            shutil.copy(self._database, self.directory / "shop.sqlite3")
        self._append("shop/tasks.py", mistake.tasks)
        if mistake.before:
            assert self._execute(mistake.before) == ""
        self._append("shop/tasks.py", mistake.later)
        self._append("settings.py", mistake.settings)
        output = self._execute(mistake.code) if mistake.code else self.manage(*mistake.command)
        # On a busy machine, any command may report that its event loop is blocked.
        kept = [line for line in output.splitlines() if _LOOP_BLOCKED not in line or mistake.cause in line]
        # A long block is reported again and again, and only the seconds differ.
        lines = dict.fromkeys(_BLOCKED_SECONDS.sub(f"{_LOOP_BLOCKED} 1.0 s", _FRAME.sub("", line)) for line in kept)
        message = " ".join(line.strip() for line in lines if line.strip())
        return _ID.sub("ID", message.replace(f"{self.directory}/", ""))

    def manage(self, *command: str) -> str:
        """Run a command of the project."""
        ran = python("manage.py", *command, directory=self.directory)
        return ran.stdout + ran.stderr

    def _execute(self, code: str) -> str:
        ran = python("-c", SCRIPT.format(code=indent(code, "    ")), directory=self.directory)
        return ran.stdout + ran.stderr

    def _append(self, name: str, text: str) -> None:
        with (self.directory / name).open("a") as file:
            file.write(f"\n{text}\n")


def make_database(directory: Path) -> Path:
    """Return an SQLite file with the tables of the project."""
    project = Project(directory / "migrated")
    assert project.manage("migrate", "--run-syncdb", "-v", "0") == ""
    return project.directory / "shop.sqlite3"


def row(mistake: Mistake, message: str) -> str:
    """Return the row of the table for a mistake."""
    return f"| {mistake.title} | `{message.replace('|', BAR)}` |\n"


def write_page() -> None:
    """Make all mistakes and replace the table of the page."""
    with tempfile.TemporaryDirectory() as name:
        database = make_database(Path(name))
        rows = [
            row(mistake, Project(Path(name) / str(number), database).answer(mistake))
            for number, mistake in enumerate(MISTAKES)
        ]
    before, _, after = PAGE.text.partition(HEADER)
    rest = re.sub(r"\A(\|.*\n)*", "", after)
    PAGE.file.write_text(f"{before}{HEADER}{''.join(rows)}{rest}")


if __name__ == "__main__":
    write_page()
