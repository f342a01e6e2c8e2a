"""Typical mistakes of the first hour, each made in a real project, and the message that answers it.

`python -m tests.docs.mistakes` makes all of them and writes the table of docs/troubleshooting.md.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from tests.docs.helpers import python
from tests.docs.pages import page

PAGE = page("docs/troubleshooting.md")
HEADER = "| mistake | message |\n|---|---|\n"
#: A vertical bar inside a table.
BAR = "\\|"

MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
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


@dataclass(frozen=True)
class Mistake:
    """A mistake: what is added to the files of the project, and the code or the command that shows the message.

    The message must contain `cause` and `next_step`. `before` is executed first, and `later` is added to the tasks
    after it.
    """

    title: str
    cause: str
    next_step: str
    settings: str = ""
    tasks: str = ""
    code: str = ""
    command: tuple[str, ...] = ()
    before: str = ""
    later: str = ""
    is_migrated: bool = True

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


MISTAKES = [
    Mistake(
        "`steady_queue` is not in `INSTALLED_APPS`, and a task is enqueued",
        cause="INSTALLED_APPS",
        next_step="migrate",
        settings="INSTALLED_APPS.remove('steady_queue')",
        code="ask.enqueue('why?')",
    ),
    Mistake(
        "`TASKS` is not set (`manage.py check`)",
        cause="TASKS",
        next_step="steady_queue.backend.SteadyQueueBackend",
        settings="del TASKS",
        command=("check",),
    ),
    Mistake(
        "`enqueue()` before `migrate`",
        cause="tables",
        next_step="manage.py migrate",
        code="ask.enqueue('why?')",
        is_migrated=False,
    ),
    Mistake(
        "a worker before `migrate`",
        cause="lacks migrations",
        next_step="manage.py migrate",
        command=("steady_queue", "-v", "0"),
        is_migrated=False,
    ),
    Mistake(
        "`enqueue()` in a coroutine",
        cause="async",
        next_step="await ask.aenqueue(",
        code="async def view():\n    ask.enqueue('why?')\nasyncio.run(view())",
    ),
    Mistake(
        "an argument has a wrong name",
        cause="'cpy'",
        next_step="'copy'",
        code="send_receipt.enqueue(1, cpy=True)",
    ),
    Mistake(
        "an argument is missing",
        cause="'order'",
        next_step="(order, *, copy=False)",
        code="send_receipt.enqueue()",
    ),
    Mistake(
        "an argument cannot be stored",
        cause="TextIOWrapper",
        next_step="store",
        code="send_receipt.enqueue(sys.stdout)",
    ),
    Mistake(
        "a model instance that is not saved is an argument",
        cause="Order",
        next_step="save",
        code="send_receipt.enqueue(Order(number=1))",
    ),
    Mistake(
        "`using(run_after=5)`",
        cause="run_after",
        next_step="timedelta",
        code="ask.using(run_after=5)",
    ),
    Mistake(
        "`using(run_after=...)` with a naive `datetime`",
        cause="run_after",
        next_step="timezone",
        code="ask.using(run_after=datetime.datetime(2030, 1, 1))",
    ),
    Mistake(
        "a queue that `TASKS` does not have",
        cause="'mial'",
        next_step="QUEUES",
        code="ask.using(queue_name='mial')",
    ),
    Mistake(
        "a priority out of range",
        cause="1000",
        next_step="between -100 and 100",
        code="ask.using(priority=1000)",
    ),
    Mistake(
        "`@task` on a nested function",
        cause="nested",
        next_step="module",
        code="def view():\n    @task\n    def nested(): pass\nview()",
    ),
    Mistake(
        "a task is called like a function",
        cause="send_receipt",
        next_step="enqueue",
        code="send_receipt(1)",
    ),
    Mistake(
        "`STEADY_QUEUE` is a dictionary",
        cause="STEADY_QUEUE",
        next_step="from steady_queue.configuration import Configuration",
        settings="STEADY_QUEUE = {'workers': [{'threads': 3}]}",
        command=("steady_queue",),
    ),
    Mistake(
        "`--threads many`",
        cause="--threads",
        next_step="integer",
        command=("steady_queue", "--threads", "many"),
    ),
    Mistake(
        "`--queues` has a queue that `TASKS` does not have",
        cause="'mial'",
        next_step="QUEUES",
        command=("steady_queue", "--drain", "--async", "-v", "0", "--queues", "mial"),
    ),
    Mistake(
        "SQLite with the default transaction mode (`manage.py check`)",
        cause="read transactions",
        next_step="'IMMEDIATE'",
        settings="del DATABASES['default']['OPTIONS']",
        command=("check",),
    ),
    Mistake(
        "`steady_queue.database` names no database (`manage.py check`)",
        cause="'quue'",
        next_step="DATABASES",
        settings="steady_queue.database = 'quue'",
        command=("check",),
    ),
    Mistake(
        "a misspelt option of the backend (`manage.py check`)",
        cause="'max_argument_bytes'",
        next_step="max_arguments_bytes",
        settings="TASKS['default']['OPTIONS'] = {'max_argument_bytes': 1000}",
        command=("check",),
    ),
    Mistake(
        "a schedule that is no crontab expression (`manage.py steady_queue check`)",
        cause="'every 5 minutes'",
        next_step="every=timedelta",
        tasks="@recurring(schedule='every 5 minutes', key='report')\n@task\ndef report(): pass",
        command=("steady_queue", "check"),
    ),
    Mistake(
        "a time zone that does not exist (`manage.py steady_queue check`)",
        cause="'Europe/Berln'",
        next_step="Europe/Berlin",
        tasks="@recurring(schedule='0 3 * * *', key='report', time_zone='Europe/Berln')\n@task\ndef report(): pass",
        command=("steady_queue", "check"),
    ),
    Mistake(
        "a concurrency key that does not fit the arguments of the task",
        cause="concurrency key",
        next_step="must take the arguments of the task",
        tasks="@limits_concurrency(key=lambda order, account: account, to=2)\n@task\ndef sync(order): pass",
        code="sync.enqueue(1)",
    ),
    Mistake(
        "a task was renamed while it waited",
        cause="shop.tasks has no task 'ask'",
        next_step="restore the old name and retry",
        before="ask.enqueue('why?')",
        later="del ask",
        command=("steady_queue", "--drain", "--async", "-v", "0"),
    ),
    Mistake(
        "`time.sleep()` in an async task",
        cause="shop.tasks.slow",
        next_step="asyncio.to_thread",
        tasks="@task\nasync def slow():\n    import time\n    time.sleep(2)",
        before="slow.enqueue()",
        command=("steady_queue", "--drain", "--async", "-v", "0"),
    ),
    Mistake(
        "the sync ORM in an async task",
        cause="shop.tasks.count",
        next_step="async methods of the ORM",
        tasks="@task\nasync def count():\n    return Order.objects.count()",
        before="count.enqueue()",
        command=("steady_queue", "--drain", "--async", "-v", "0"),
    ),
]


class Project:
    """A project in an empty directory, in which one mistake is made."""

    def __init__(self, directory: Path, mistake: Mistake, database: Path | None = None) -> None:
        self.directory = directory
        self._mistake = mistake
        (directory / "shop").mkdir(parents=True)
        files = {"__init__.py": "", "urls.py": "urlpatterns = []", "models.py": MODELS, "tasks.py": TASKS}
        for name, text in files.items():
            (directory / "shop" / name).write_text(text)
        (directory / "manage.py").write_text(MANAGE)
        (directory / "settings.py").write_text(SETTINGS)
        if database is not None and mistake.is_migrated:
            shutil.copy(database, directory / "shop.sqlite3")

    def answer(self) -> str:
        """Make the mistake and return the message in one line, without what differs between two runs."""
        mistake = self._mistake
        self._append("shop/tasks.py", mistake.tasks)
        if mistake.before:
            assert self._execute(mistake.before) == ""
        self._append("shop/tasks.py", mistake.later)
        self._append("settings.py", mistake.settings)
        output = self._execute(mistake.code) if mistake.code else self.manage(*mistake.command)
        lines = [_FRAME.sub("", line).strip() for line in output.splitlines()]
        message = " ".join(line for line in lines if line)
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
    project = Project(directory / "migrated", MISTAKES[0])
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
            row(mistake, Project(Path(name) / str(number), mistake, database).answer())
            for number, mistake in enumerate(MISTAKES)
        ]
    before, _, after = PAGE.text.partition(HEADER)
    rest = re.sub(r"\A(\|.*\n)*", "", after)
    PAGE.file.write_text(f"{before}{HEADER}{''.join(rows)}{rest}")


if __name__ == "__main__":
    write_page()
