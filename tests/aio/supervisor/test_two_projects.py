"""Two projects on one queue database: each has its own queues, and neither has the tasks of the other."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from steady_queue import actions
from steady_queue.models import Job, RecurringTask
from tests.support.processes.commands import read_output, stop_command
from tests.support.processes.manage import write_manage
from tests.support.processes.projects import program
from tests.support.wait import in_thread, until

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.processes.commands import Command

pytestmark = pytest.mark.anyio

SETTINGS = """
from datetime import timedelta
from tests.settings import *
import steady_queue
from steady_queue.configuration import Configuration
steady_queue.database = {alias!r}
INSTALLED_APPS = ["django.contrib.contenttypes", "django_tasks", "steady_queue", {name!r}]
TASKS = {{"default": {{"BACKEND": "steady_queue.backend.SteadyQueueBackend", "QUEUES": [{name!r}]}}}}
STEADY_QUEUE = Configuration.Options(workers=[Configuration.Worker(queues=[{name!r}])], {options})
"""
TASKS = """
from datetime import timedelta
from steady_queue import task
from steady_queue.concurrency import limits_concurrency
from steady_queue.recurring.definitions import recurring

@task(queue_name={name!r})
def work(number):
    return f"{name} {{number}}"

@limits_concurrency(key="one", group="shared")
@task(queue_name={name!r})
async def in_turn(number):
    return f"{name} {{number}}"
{more}
"""
RECURRING = """
@recurring(every=timedelta(days=365), key="{name} once a year")
@task(queue_name={name!r})
def sweep():
    return "{name}"
"""
ENQUEUE = """
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "{name}.settings"
import django
django.setup()
from datetime import timedelta
from {name}.tasks import in_turn, work
for number in range({count}):
    work.enqueue(number)
    in_turn.enqueue(number)
    work.using(run_after=timedelta(seconds=1)).enqueue(number)
"""
#: Each task is enqueued plain, limited and scheduled.
COUNT = 5


class Project:
    """A project with tasks of its own in a queue of its own name."""

    def __init__(self, directory: Path, name: str, alias: str, *, options: str = "", more: str = "") -> None:
        self.name = name
        self.directory = directory / f"{name}_project"
        app = self.directory / name
        app.mkdir(parents=True)
        (app / "__init__.py").touch()
        (app / "settings.py").write_text(SETTINGS.format(name=name, alias=alias, options=options))
        (app / "tasks.py").write_text(TASKS.format(name=name, more=more.format(name=name)))
        write_manage(self.directory, f"{name}.settings")
        (self.directory / "enqueue.py").write_text(ENQUEUE.format(name=name, count=COUNT))

    def command(self, *arguments: str) -> AbstractContextManager[Command]:
        return program("manage.py", "steady_queue", *arguments, cwd=self.directory)

    async def enqueue(self) -> None:
        with program("enqueue.py", cwd=self.directory) as process:
            await read_output(process)

    def ended(self) -> list[str]:
        """The value or the error of its tasks that have ended, and their worker."""
        jobs = Job.objects.filter(task_path__startswith=f"{self.name}.", worker_ids__isnull=False)
        return [str(job.return_value or job.errors) for job in jobs]

    @property
    def expected(self) -> list[str]:
        return sorted(f'"{self.name} {number}"' for number in range(COUNT) for _ in range(3))


@pytest.mark.usually_on("postgres")
async def test_each_project_runs_its_own_tasks_and_one_dispatches_those_of_both(database: str, tmp_path: Path) -> None:
    bakery = Project(tmp_path, "bakery", database, more=RECURRING)
    # A process with only_work leaves dispatching and recurring tasks to the other project.
    florist = Project(tmp_path, "florist", database, options="only_work=True")
    await bakery.enqueue()
    await florist.enqueue()
    with bakery.command() as one, florist.command("--async") as other:
        for project in (bakery, florist):

            async def all_ended(project: Project = project) -> bool:
                return len(await in_thread(project.ended)) >= 3 * COUNT

            await until(all_ended, f"tasks of {project.name} never end")
            assert sorted(await in_thread(project.ended)) == project.expected
        entries = await in_thread(lambda: list(RecurringTask.objects.values_list("pk", "enabled")))
        assert entries == [("bakery once a year", True)]
        assert "Traceback" not in await stop_command(one) + await stop_command(other, signal.SIGINT)


@pytest.mark.only_on("sqlite")
async def test_a_task_claimed_by_the_wrong_project_fails_with_the_reason_and_can_be_retried(
    database: str, tmp_path: Path
) -> None:
    bakery = Project(tmp_path, "bakery", database)
    florist = Project(tmp_path, "florist", database)
    await bakery.enqueue()
    with florist.command("--async", "--drain", "--skip-recurring", "--queues", "*") as process:
        await read_output(process)
    errors = await in_thread(bakery.ended)
    assert len(errors) == 3 * COUNT
    assert all("UnknownTaskError" in error for error in errors)

    assert await in_thread(actions.retry_where) == 3 * COUNT
    with bakery.command("--async", "--drain", "--skip-recurring") as process:
        await read_output(process)
    assert sorted(await in_thread(bakery.ended)) == bakery.expected
