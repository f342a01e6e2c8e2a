"""Programs that enqueue and exit: they leave the job, no open connection and no process."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.support.databases.tables import count, counts
from tests.support.processes.scripts import run_script

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract

PROGRAMS = {
    "asyncio.run": "asyncio.run(add.aenqueue(1))",
    "sync": "add.enqueue(1)",
    "both": "add.enqueue(1); asyncio.run(add.aenqueue(2)); add.enqueue(3)",
    "run twice": "asyncio.run(add.aenqueue(1)); asyncio.run(charge.aenqueue('ada'))",
    "async_to_sync": "from asgiref.sync import async_to_sync; async_to_sync(add.aenqueue)(1)",
    "anyio": "import anyio; anyio.run(add.aenqueue, 1)",
    "thread": "import threading; threading.Thread(target=lambda: asyncio.run(add.aenqueue(1))).start()",
    "bulk": "asyncio.run(steady_queue.aenqueue_all([add.bind(1), charge.bind('ada'), greet.bind('Ada')]))",
    "runner": "runner = asyncio.Runner(); runner.run(add.aenqueue(1)); runner.close()",
    "gather": """
async def main():
    await asyncio.gather(*(add.aenqueue(number) for number in range(10)))
asyncio.run(main())
""",
    "result": """
async def main():
    result = await add.aenqueue(1)
    await result.arefresh()
    print(result.status)
asyncio.run(main())
""",
}
JOBS = {"both": 3, "run twice": 2, "bulk": 3, "gather": 10}


def test_a_program_that_enqueues_and_ends_leaves_its_jobs(database: str) -> None:
    # One interpreter for them all: starting one takes longer than everything else here.
    run_script("\n".join(PROGRAMS.values()), alias=database)
    assert count(database, "job") == sum(JOBS.get(name, 1) for name in PROGRAMS)


def test_a_program_ends_right_after_its_only_enqueue(database: str) -> None:
    run_script(PROGRAMS["asyncio.run"], alias=database)
    assert counts(database) == {"ready": 1}


def test_a_program_that_fails_after_its_enqueue_still_ends(database: str) -> None:
    run_script(
        """
async def leave():
    await add.aenqueue(1)
    raise SystemExit

async def fail():
    await add.aenqueue(2)
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(60))
        await add.aenqueue(3)
        raise LookupError

try:
    asyncio.run(leave())
except SystemExit:
    asyncio.run(fail())
""",
        alias=database,
        code=1,
        timeout_seconds=25,
    )
    assert counts(database) == {"ready": 3}


def test_a_program_that_cancels_an_enqueue_at_any_step_stores_all_or_none_and_ends(database: str) -> None:
    run_script(
        """
async def main():
    for _ in range(2):
        for steps in range(12):
            enqueuing = asyncio.ensure_future(steady_queue.aenqueue_all([add.bind(1), charge.bind('ada')]))
            for _ in range(steps):
                await asyncio.sleep(0)
            enqueuing.cancel()
            await asyncio.wait([enqueuing])
        await steady_queue.aenqueue_all([add.bind(1), charge.bind('ada')])
asyncio.run(main())
""",
        alias=database,
        quiet=False,
        timeout_seconds=25,
    )
    jobs = count(database, "job")
    assert jobs >= 4
    assert jobs % 2 == 0


def test_a_program_whose_loop_is_never_closed_ends(database: str) -> None:
    run_script(
        """
import warnings
warnings.simplefilter("ignore", ResourceWarning)  # its own loop
asyncio.new_event_loop().run_until_complete(add.aenqueue(1))
""",
        alias=database,
        timeout_seconds=25,
    )
    assert count(database, "job") == 1


def test_a_program_ends_although_no_connection_could_be_opened(tmp_path: Path) -> None:
    """One program for every way in which a SQLite file cannot be used."""
    (tmp_path / "text").write_text(
        "This is a text, and rather a long one, so that SQLite does not take it for an empty file." * 20
    )
    sqlite3.connect(tmp_path / "empty").close()
    printed = run_script(
        f"""
from django.db import connections
from steady_queue.errors import EnqueueError
settings = connections.databases["sqlite"]
names = ["{tmp_path}/missing/file", "{tmp_path}/text", "file:{tmp_path}/empty?mode=ro", "{tmp_path}/empty"]
for name, command in [*((name, "") for name in names), ("{tmp_path}/new", "this is not SQL")]:
    settings["NAME"], settings["OPTIONS"]["init_command"] = name, command
    try:
        asyncio.run(add.aenqueue(1))
    except EnqueueError as error:
        print(error.stored)
""",
        alias="sqlite",
        timeout_seconds=25,
    )
    assert printed.split() == ["no"] * 5


def test_in_memory_databases_of_a_test_run_are_reached_from_sync_and_async_code() -> None:
    printed = run_script(
        """
import asyncio, sys, unittest
import django
from django.conf import settings
from tests import settings as suite
names = ("INSTALLED_APPS", "TASKS", "USE_TZ", "TIME_ZONE", "SECRET_KEY", "DEFAULT_AUTO_FIELD")
memory = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
settings.configure(DATABASES=memory, **{name: getattr(suite, name) for name in names})
django.setup()

from asgiref.sync import sync_to_async
from django.db import connections
from django.test import TestCase, TransactionTestCase
from django.test.runner import DiscoverRunner
from tests.shop.tasks import add, charge
from tests.support.databases.tables import count, counts

class Rolled(TestCase):
    def test_sync(self):
        add.enqueue(1)
        self.assertEqual(count("default", "job"), 1)

    async def test_async(self):
        result = await add.aenqueue(1)
        await result.arefresh()
        self.assertEqual(await sync_to_async(count)("default", "job"), 1)

    def test_own_loop(self):
        self.assertEqual(count("default", "job"), 0)

class Committed(TransactionTestCase):
    def test_own_loop(self):
        asyncio.run(add.aenqueue(1))
        charge.enqueue("ada")
        self.assertEqual(counts("default"), {"ready": 2})
        asyncio.run(sync_to_async(connections.close_all)())

    async def test_async(self):
        await charge.aenqueue("ada")
        self.assertEqual(await sync_to_async(counts)("default"), {"ready": 1})

runner = DiscoverRunner(verbosity=0)
runner.setup_test_environment()
old = runner.setup_databases()
suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, (Rolled, Committed)))
result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
runner.teardown_databases(old)
runner.teardown_test_environment()
""",
        quiet=False,
    )
    assert "Ran 5 tests" in printed
    assert printed.rstrip().endswith("OK"), printed
