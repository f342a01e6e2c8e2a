"""Recurring tasks of real projects: refused starts, two projects on one database, an old and a new version together."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from steady_queue.models import RecurringTask
from tests.support.databases.tables import count, query
from tests.support.processes.commands import read_output, stop_command, wait_for_output
from tests.support.processes.projects import program
from tests.support.processes.scripts import REPOSITORY
from tests.support.runtime import in_thread, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.processes.commands import Command

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres")]

SETTINGS = """
from datetime import timedelta
from tests.settings import *
import steady_queue
from steady_queue.aio.scheduler import scheduler
from steady_queue.configuration import Configuration
steady_queue.database = {alias!r}
scheduler.LOOK_SECONDS = 0.2
INSTALLED_APPS = [*INSTALLED_APPS, {name!r}]
STEADY_QUEUE = Configuration.Options(workers=[], {options})
"""
TASKS = """
from datetime import timedelta
from steady_queue import task
from steady_queue.recurring.definitions import recurring
"""
GOOD = """
@recurring(every=timedelta(seconds=1), key={key!r})
@task
async def {name}(): ...
"""


def write(directory: Path, name: str, alias: str, tasks: str, options: str = "") -> None:
    """A project of this name, all of it one app."""
    app = directory / name
    app.mkdir(parents=True)
    (app / "__init__.py").touch()
    (app / "settings.py").write_text(SETTINGS.format(alias=alias, name=name, options=options))
    (app / "tasks.py").write_text(TASKS + tasks)


@contextmanager
def started(directory: Path, name: str, *arguments: str, **environ: str) -> Iterator[Command]:
    path = os.pathsep.join([str(directory), str(REPOSITORY)])
    words = ("-m", "django", "steady_queue", "--settings", f"{name}.settings", *arguments)
    with program(*words, cwd=directory, environ={"PYTHONPATH": path, **environ}) as process:
        yield process


def entries(alias: str) -> dict[str, Any]:
    return {row.key: row for row in RecurringTask.objects.using(alias).all()}


async def fires(alias: str, key: str, times: int = 2) -> None:
    """The entry fires so many times more."""
    text = "SELECT count(*) FROM steady_queue_recurringexecution WHERE task_key = %s"
    before = (await in_thread(query, alias, text, key))[0][0]
    await until(lambda: in_thread(lambda: query(alias, text, key)[0][0] >= before + times), f"{key} does not fire")


# -- starts that are refused ------------------------------------------------------------------------------------------

BAD = """
@recurring("61 * * * *", key="cron")
@recurring("0 9 * * *", key="zone", time_zone="Mars/Olympus")
@recurring("0 9 * * *", key="twice")
@recurring("0 8 * * *", key="twice")
@recurring("0 8 * * *", key="arguments", args=(1, 2, 3))
@task
async def wrong(): ...
"""
NAMED = ("'cron'", "out of range", "Mars/Olympus", "2 entries have this key", "takes no positional argument, but 3")


@pytest.mark.usually_on("sqlite")
@pytest.mark.parametrize("arguments", [(), ("--async",)], ids=["supervisor", "one loop"])
async def test_a_start_is_refused_once_with_every_problem_of_the_code(
    database: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    write(tmp_path, "bad", database, BAD)
    with started(tmp_path, "bad", *arguments) as process:
        printed = await read_output(process, code=1)
    for words in NAMED:
        assert printed.count(words) == 1, printed
    assert "Traceback" not in printed
    assert "died" not in printed
    assert await in_thread(count, database, "recurringtask") == await in_thread(count, database, "process") == 0


@pytest.mark.only_on("sqlite")
async def test_recurring_tasks_in_settings_are_refused_with_every_problem(database: str, tmp_path: Path) -> None:
    options = """recurring_tasks=[
        Configuration.RecurringTask(key="gone", class_name="wrong.tasks.gone", schedule="0 9 * * *"),
        Configuration.RecurringTask(key="cron", class_name="wrong.tasks.right", schedule="61 * * * *"),
    ]"""
    write(tmp_path, "wrong", database, GOOD.format(key="unused", name="right"), options)
    for arguments in ((), ("--async",), ("check",)):
        with started(tmp_path, "wrong", *arguments) as process:
            printed = await read_output(process, code=1)
        for words in ("'wrong.tasks.gone' is not a task", "out of range"):
            assert printed.count(words) == 1, printed


@pytest.mark.only_on("sqlite")
async def test_a_command_in_settings_is_refused_before_anything_starts(database: str, tmp_path: Path) -> None:
    options = """recurring_tasks=[Configuration.RecurringTask(
        key="shell", class_name="wrong.tasks.right", schedule="0 9 * * *", command="rm", arguments={"a": object()}
    )]"""
    write(tmp_path, "wrong", database, "", options)
    with started(tmp_path, "wrong") as process:
        printed = await read_output(process, code=1)
    assert "recurring_tasks[0]: command is not supported" in printed
    assert "recurring_tasks[0]: arguments may only have the keys" in printed


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("arguments", [(), ("--async",), ("check",)], ids=["supervisor", "one loop", "check"])
async def test_problems_of_the_settings_and_of_the_tasks_are_reported_together(
    database: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    options = """max_tasks=-1, recurring_tasks=[
        Configuration.RecurringTask(key="shell", class_name="wrong.tasks.right", schedule="0 9 * * *", command="rm"),
        Configuration.RecurringTask(key="cron", class_name="wrong.tasks.right", schedule="61 * * * *"),
        Configuration.RecurringTask(key="gone", class_name="wrong.tasks.gone", schedule="0 9 * * *"),
    ]"""
    write(tmp_path, "wrong", database, GOOD.format(key="unused", name="right"), options)
    with started(tmp_path, "wrong", *arguments) as process:
        printed = await read_output(process, code=1)
    for words in ("max_tasks must be", "command is not supported", "'wrong.tasks.gone' is not a task", "out of range"):
        assert printed.count(words) == 1, printed


@pytest.mark.only_on("sqlite")
async def test_tasks_that_cannot_be_imported_refuse_a_start_with_their_place(database: str, tmp_path: Path) -> None:
    write(tmp_path, "broken", database, "import nothing_of_this_name")
    with started(tmp_path, "broken") as process:
        printed = await read_output(process, code=1)
    assert printed.count("the tasks cannot be imported: ModuleNotFoundError") == 1
    assert "tasks.py, line " in printed


@pytest.mark.only_on("sqlite")
async def test_a_process_that_refuses_when_another_has_worked_is_tried_again(database: str, tmp_path: Path) -> None:
    write(tmp_path, "garden", database, GOOD.format(key="water", name="water"))
    with started(tmp_path, "garden") as process:
        await fires(database, "water")
        (tmp_path / "garden" / "tasks.py").write_text(TASKS + BAD)
        ((pid,),) = await in_thread(query, database, "SELECT pid FROM steady_queue_process WHERE kind = 'process'")
        os.kill(pid, 9)
        await wait_for_output(process, "did not start: recurring task")
        (tmp_path / "garden" / "tasks.py").write_text(TASKS + GOOD.format(key="water", name="water"))
        await fires(database, "water")
        await stop_command(process)


# -- what is enqueued -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["--skip-recurring"], {}),
        ([], {"STEADY_QUEUE_SKIP_RECURRING": "1"}),
    ],
    ids=["option", "variable"],
)
@pytest.mark.only_on("sqlite")
async def test_a_command_with_the_option_neither_checks_nor_stores_nor_enqueues_recurring_tasks(
    database: str, tmp_path: Path, arguments: list[str], environ: dict[str, str]
) -> None:
    write(tmp_path, "bad", database, BAD)
    with started(tmp_path, "bad", "--async", *arguments, **environ) as process:
        await wait_for_output(process, "started")
        await stop_command(process)
    assert await in_thread(count, database, "recurringtask") == 0


@pytest.mark.usually_on("postgres")
async def test_recurring_tasks_in_settings_replace_those_of_the_code(database: str, tmp_path: Path) -> None:
    options = """recurring_tasks=[Configuration.RecurringTask(
        key="listed", class_name="listing.tasks.add", schedule="@every 1", arguments={"args": [1], "kwargs": {"b": 2}},
        queue_name="mail", priority=7, description="adds",
    )]"""
    tasks = """
@recurring(every=timedelta(seconds=1), key="decorated", args=(1, 2))
@task
async def add(a, b): ...
"""
    write(tmp_path, "listing", database, tasks, options)
    with started(tmp_path, "listing") as process:
        await fires(database, "listed")
        await stop_command(process)
    found = await in_thread(entries, database)
    assert found.keys() == {"listed"}
    assert found["listed"].static
    assert found["listed"].description == "adds"
    jobs = await in_thread(query, database, "SELECT DISTINCT queue_name, priority, task_path FROM steady_queue_job")
    assert [tuple(row) for row in jobs] == [("mail", 7, "listing.tasks.add")]


# -- several projects, several versions -------------------------------------------------------------------------------


@pytest.mark.usually_on("postgres")
async def test_two_projects_on_one_database_leave_each_others_entries_alone(database: str, tmp_path: Path) -> None:
    for name in ("bakery", "cinema"):
        own, common = GOOD.format(key=name, name="own"), GOOD.format(key="common", name="common")
        write(tmp_path / name, name, database, own + common)
    with ExitStack() as stack:
        bakery = stack.enter_context(started(tmp_path / "bakery", "bakery", "--async"))
        await fires(database, "bakery")
        cinema = stack.enter_context(started(tmp_path / "cinema", "cinema", "--async"))
        # A key can be used once: the later project logs a warning.
        output = await wait_for_output(cinema, "recurring task common was not enqueued: another project")
        assert "bakery.tasks.common" in output
        await fires(database, "cinema")
        await in_thread(_schedule_for, database, "bakery.tasks.own", "dynamic")
        for key in ("bakery", "cinema", "common", "dynamic"):
            await fires(database, key)
        await stop_command(bakery)
        with started(tmp_path / "bakery", "bakery", "--async") as again:
            await fires(database, "bakery")
            await fires(database, "cinema")
            await stop_command(again)
        await stop_command(cinema)
    found = await in_thread(entries, database)
    assert found.keys() == {"bakery", "cinema", "common", "dynamic"}
    assert all(row.enabled and row.disabled_reason is None for row in found.values())
    assert found["common"].task_path == "bakery.tasks.common"


def _schedule_for(alias: str, path: str, key: str) -> None:
    """A dynamic entry, as a process of the project that has this task would make it."""
    from steady_queue.store.operations.recurring.entries import NewEntry, add
    from tests.support.store.stores import SyncStore

    store = SyncStore(alias)
    assert store.run(add(store.sql, NewEntry(key, path, "@every 1", None, "none", "[1,[],{}]", None, None, "")))


@pytest.mark.usually_on("postgres")
async def test_an_old_version_undoes_nothing_that_a_newer_one_has_stored(database: str, tmp_path: Path) -> None:
    kept = GOOD.format(key="kept", name="kept")
    write(tmp_path / "old", "shop2", database, kept + GOOD.format(key="removed", name="removed"))
    changed = GOOD.replace("seconds=1", "seconds=2").format(key="kept", name="kept")
    write(tmp_path / "new", "shop2", database, changed + GOOD.format(key="added", name="added"))
    with ExitStack() as stack:
        old = stack.enter_context(started(tmp_path / "old", "shop2", "--async"))
        for key in ("kept", "removed"):
            await fires(database, key)
        new = stack.enter_context(started(tmp_path / "new", "shop2", "--async"))
        await wait_for_output(old, "recurring task added cannot be enqueued by this process")
        await in_thread(_schedule_for, database, "shop2.tasks.added", "dynamic")
        await wait_for_output(old, "recurring task dynamic cannot be enqueued by this process")
        for key in ("added", "dynamic", "kept"):
            await fires(database, key, 3)
        await stop_command(old)
        await fires(database, "added")
        await stop_command(new)
    found = await in_thread(entries, database)
    assert found.keys() == {"kept", "added", "dynamic"}
    assert found["kept"].schedule == "@every 2"
    assert all(row.enabled and row.disabled_reason is None for row in found.values())
