"""The usual test run of a small project: Django's own runner, and SQLite in memory."""

from __future__ import annotations

import pytest

from tests.support.processes.scripts import run_script

pytestmark = pytest.mark.contract


def test_tasks_run_in_a_database_in_memory() -> None:
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
from steady_queue.testing import arun_pending, assert_enqueued, run_pending
from tests.support.databases.invariants import violations
from tests.testing.tasks import asaves, limited, saves

def enqueue():
    for task, argument in [(saves, "Ada"), (asaves, "Alan"), (limited, "ada"), (limited, "ada")]:
        task.enqueue(argument)

class Both:
    def tearDown(self):
        self.assertEqual(violations("default"), [])

    def test_sync(self):
        enqueue()
        assert_enqueued(limited, count=2)
        self.assertEqual(len(run_pending(raising=True)), 4)

    async def test_async(self):
        await sync_to_async(enqueue)()
        await saves.aenqueue("Grace")
        self.assertEqual(len(await arun_pending(raising=True)), 5)

class Rolled(Both, TestCase):
    pass

class Committed(Both, TransactionTestCase):
    def test_own_loop(self):
        async def run():
            await saves.aenqueue("Ada")
            await limited.aenqueue("ada")
            try:
                return await arun_pending(raising=True)
            finally:
                await sync_to_async(connections.close_all)()
        self.assertEqual(len(asyncio.run(run())), 2)

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
