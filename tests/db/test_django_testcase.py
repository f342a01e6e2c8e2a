"""Django's TestCase: what a test enqueues belongs to the test's transaction, and is rolled back with it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.db import connections, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase

import steady_queue
from steady_queue import aenqueue_all, enqueue_all
from steady_queue.jobs.compat import TaskResultStatus
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.aliases import pointed_at
from tests.support.databases.tables import count, counts, empty_tables, restore_migrated_rows
from tests.support.store.manual_worker import Worker
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.contract


class InDatabase:
    """The queue is in `database_name` while a test runs."""

    database_name: ClassVar[str]

    def setUp(self) -> None:
        self._before = steady_queue.database
        steady_queue.database = self.database_name
        assert count(self.database_name, "job") == 0

    def tearDown(self) -> None:
        steady_queue.database = self._before

    @property
    def counts(self) -> dict[str, int]:
        return counts(self.database_name)

    def others_see(self) -> int:
        with while_in_thread(lambda: count(self.database_name, "job")) as found:
            return found.result(WAIT_TIMEOUT_SECONDS)


class Joined(InDatabase, TestCase):
    """The queue's database is the one whose transaction the test runs in."""

    __test__ = False

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        left = count(cls.database_name, "job")
        empty_tables(cls.database_name)
        connections.close_all()
        assert left == 0

    def test_enqueue_joins_the_transaction_of_the_test(self) -> None:
        tasks.add.enqueue(1)
        enqueue_all([tasks.add.bind(2), tasks.greet.bind("Ada")])
        assert self.counts == {"ready": 3}
        assert self.others_see() == 0

    async def test_aenqueue_joins_the_transaction_of_the_test(self) -> None:
        result = await tasks.add.aenqueue(1)
        await aenqueue_all([tasks.add.bind(2)])
        await asyncio.gather(*(tasks.add.aenqueue(number) for number in range(5)))
        assert (await tasks.add.aget_result(result.id)).args == [1]
        assert await sync_to_async(lambda: self.counts)() == {"ready": 7}
        assert await sync_to_async(self.others_see)() == 0

    def test_aenqueue_under_async_to_sync_joins_too(self) -> None:
        async_to_sync(tasks.add.aenqueue)(1)
        assert self.counts == {"ready": 1}
        assert self.others_see() == 0

    async def test_a_task_made_by_the_test_joins_too(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(tasks.add.aenqueue(1))
        assert await sync_to_async(lambda: self.counts)() == {"ready": 1}
        assert await sync_to_async(self.others_see)() == 0

    def test_a_job_refers_to_rows_that_only_the_test_sees(self) -> None:
        ada = Customer.objects.using(self.database_name).create(name="Ada")
        result = tasks.anything.enqueue(ada)
        assert tasks.anything.get_result(result.id).args == result.args

    def test_a_limited_job_gets_its_slot_when_the_callbacks_are_run(self) -> None:
        with TestCase.captureOnCommitCallbacks(using=self.database_name) as waiting:
            tasks.charge.enqueue("ada")
            assert self.counts == {"blocked": 1}
        assert waiting
        with TestCase.captureOnCommitCallbacks(using=self.database_name, execute=True):
            tasks.charge.enqueue("ada")
        assert self.counts == {"ready": 1, "blocked": 1}

    def test_jobs_can_be_claimed_and_settled_inside_the_test(self) -> None:
        result = tasks.add.enqueue(1, b=2)
        worker = Worker(self.database_name)
        worker.finish(worker.claim(), "3")
        result.refresh()
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)

    def test_a_rollback_inside_the_test_takes_its_jobs(self) -> None:
        with transaction.atomic(using=self.database_name):
            tasks.add.enqueue(1)
            transaction.set_rollback(True, using=self.database_name)
        assert self.counts == {}


class InOtherDatabase(InDatabase, TestCase):
    """The queue is in another database than the application's transaction, as a test sees it."""

    __test__ = False

    def test_enqueue_waits_for_the_applications_commit(self) -> None:
        with TestCase.captureOnCommitCallbacks(using="default") as waiting:
            tasks.add.enqueue(1)
        assert len(waiting) == 1
        assert self.counts == {}
        with TestCase.captureOnCommitCallbacks(using="default", execute=True):
            tasks.add.enqueue(2)
        assert self.counts == {"ready": 1}
        assert self.others_see() == 0

    async def test_aenqueue_waits_for_the_applications_commit(self) -> None:
        def captured() -> list[Any]:
            with TestCase.captureOnCommitCallbacks(using="default") as waiting:
                async_to_sync(tasks.add.aenqueue)(1)
            return waiting

        assert len(await sync_to_async(captured)()) == 1
        assert await sync_to_async(lambda: self.counts)() == {}

    def test_a_task_that_does_not_wait_is_stored_at_once(self) -> None:
        tasks.at_once.enqueue()
        assert self.counts == {"ready": 1}


class Committed(InDatabase, TransactionTestCase):
    """Without a transaction around the test, jobs are committed and flushed."""

    __test__ = False

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        restore_migrated_rows(cls.database_name)
        connections.close_all()

    def test_enqueue_commits(self) -> None:
        tasks.add.enqueue(1)
        tasks.charge.enqueue("ada")
        assert self.others_see() == 2

    async def test_aenqueue_commits(self) -> None:
        await tasks.add.aenqueue(1)
        await tasks.charge.aenqueue("ada")
        assert await sync_to_async(self.others_see)() == 2

    def test_limits_work_after_the_flush_of_the_test_before(self) -> None:
        for _ in range(2):
            tasks.charge.enqueue("ada")
            call_command("flush", database=self.database_name, interactive=False, verbosity=0)
        tasks.charge.enqueue("ada")
        tasks.charge.enqueue("ada")
        assert self.counts == {"ready": 1, "blocked": 1}


class TestForbidden(SimpleTestCase):
    """A test that may use no database."""

    database_name = "sqlite"

    def test_enqueue_is_refused_like_every_query(self) -> None:
        with pointed_at(self.database_name):
            for enqueue in (tasks.add.enqueue, async_to_sync(tasks.add.aenqueue)):
                with pytest.raises(AssertionError, match="not allowed"):
                    enqueue(1)


def on(base: type[Any], database: str, *others: str) -> type[Any]:
    name = f"Test{base.__name__}On{database.capitalize()}"
    body = {"__test__": True, "database_name": database, "databases": {database, *others}}
    return type(name, (base,), {**body, "pytestmark": [pytest.mark.needs(database)]})


TestJoinedOnPostgres = on(Joined, "postgres")
TestJoinedOnMariadb = on(Joined, "mariadb")
TestJoinedOnSqlite = on(Joined, "sqlite")
TestInOtherDatabaseOnPostgres = on(InOtherDatabase, "postgres", "default")
TestInOtherDatabaseOnMariadb = on(InOtherDatabase, "mariadb", "default")
TestInOtherDatabaseOnSqlite = on(InOtherDatabase, "sqlite", "default")
TestCommittedOnPostgres = on(Committed, "postgres")
TestCommittedOnMariadb = on(Committed, "mariadb")
TestCommittedOnSqlite = on(Committed, "sqlite")
