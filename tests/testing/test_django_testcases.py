"""`steady_queue.testing` in Django's own test classes: inside a transaction, and with real commits."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections
from django.test import SimpleTestCase, TestCase, TransactionTestCase

import steady_queue
from steady_queue.jobs.compat import TaskResultStatus
from steady_queue.testing import arun_pending, assert_enqueued, assert_not_enqueued, enqueued, run_pending
from tests.shop import tasks as shop
from tests.shop.models import Customer
from tests.support.databases.aliases import pointed_at
from tests.support.databases.invariants import violations
from tests.support.databases.tables import count, counts, restore_migrated_rows
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread
from tests.support.wait import until
from tests.testing import tasks

if TYPE_CHECKING:
    from steady_queue.jobs.compat import TaskResult

pytestmark = pytest.mark.contract


def values(results: list[TaskResult[Any]]) -> list[Any]:
    return [result.return_value for result in results]


class InDatabase:
    """The queue is in `database_name` while a test runs, and whole at its end."""

    database_name: ClassVar[str]

    def setUp(self) -> None:
        self._before = steady_queue.database
        steady_queue.database = self.database_name
        assert count(self.database_name, "job") == 0

    def tearDown(self) -> None:
        steady_queue.database = self._before
        found = violations(self.database_name)
        assert not found
        assert count(self.database_name, "process") == 0

    @property
    def names(self) -> list[str]:
        return list(Customer.objects.using(self.database_name).order_by("pk").values_list("name", flat=True))

    def others_see(self) -> int:
        with while_in_thread(lambda: count(self.database_name, "job")) as found:
            return found.result(WAIT_TIMEOUT_SECONDS)


class Both(InDatabase):
    """What holds with and without a transaction around the test."""

    def test_what_tasks_write_is_seen_by_the_test(self) -> None:
        tasks.saves.enqueue("Ada")
        tasks.asaves.enqueue("Alan")
        results = run_pending(raising=True)
        assert values(results) == list(
            Customer.objects.using(self.database_name).order_by("pk").values_list("pk", flat=True)
        )
        assert self.names == ["Ada", "Alan"]

    async def test_the_same_in_an_async_test(self) -> None:
        await tasks.saves.aenqueue("Ada")
        await tasks.asaves.aenqueue("Alan")
        await tasks.aspreads.aenqueue(1)
        results = await arun_pending(raising=True)
        assert values(results)[2:] == [1, 0]
        assert await sync_to_async(lambda: self.names)() == ["Ada", "Alan"]

    async def test_async_tasks_run_in_the_loop_of_the_test(self) -> None:
        await tasks.areturns_loop.aenqueue()
        assert values(await arun_pending()) == [id(asyncio.get_running_loop())]

    def test_tasks_see_the_rows_of_the_test(self) -> None:
        ada = Customer.objects.using(self.database_name).create(name="Ada")
        tasks.renames.enqueue(ada, "Lovelace")
        assert_enqueued(tasks.renames, args=(ada, "Lovelace"))
        run_pending(raising=True)
        assert self.names == ["Lovelace"]

    def test_sync_tasks_run_in_the_thread_of_the_test(self) -> None:
        tasks.returns_thread.enqueue()
        tasks.areturns_orm_thread.enqueue()
        assert values(run_pending()) == [threading.get_ident()] * 2

    def test_limited_tasks_run_one_after_another(self) -> None:
        for number in range(3):
            tasks.limited.enqueue("ada", number)
        assert_enqueued(tasks.limited, count=3)
        assert values(run_pending()) == [0, 1, 2]
        assert count(self.database_name, "semaphore") == 0

    def test_a_task_that_finds_no_free_slot_is_discarded(self) -> None:
        first = tasks.only_one.enqueue("ada")
        tasks.only_one.enqueue("ada")
        assert [result.id for result in run_pending()] == [first.id]
        assert_not_enqueued(tasks.only_one)

    def test_a_durable_block_in_a_task_is_allowed(self) -> None:
        tasks.saves_durably.enqueue("Ada")
        run_pending(raising=True)
        assert self.names == ["Ada"]

    def test_what_a_task_wrote_before_it_failed_stays(self) -> None:
        tasks.saves_and_fails.enqueue("Ada")
        (result,) = run_pending()
        assert result.status == TaskResultStatus.FAILED
        assert self.names == ["Ada"]

    def test_an_error_of_the_database_fails_its_task_and_spares_the_test(self) -> None:
        tasks.breaks.enqueue("Ada")
        tasks.abreaks.enqueue("Alan")
        tasks.saves.enqueue("Grace")
        first, second, third = run_pending()
        assert {result.status for result in (first, second)} == {TaskResultStatus.FAILED}
        assert "nowhere" in first.errors[0].traceback
        assert third.status == TaskResultStatus.SUCCESSFUL
        assert self.names[-1:] == ["Grace"]

    async def test_the_same_error_in_an_async_test(self) -> None:
        await tasks.breaks.aenqueue("Ada")
        await tasks.abreaks.aenqueue("Alan")
        with pytest.raises(DatabaseError, match="nowhere"):
            await arun_pending(raising=True)
        with pytest.raises(DatabaseError, match="nowhere"):
            await arun_pending(raising=True)
        assert await arun_pending() == []

    def test_scheduled_tasks_can_be_run(self) -> None:
        tasks.named.using(run_after=timedelta(days=1)).enqueue("tomorrow")
        assert run_pending() == []
        assert_enqueued(tasks.named, args=["tomorrow"])
        assert values(run_pending(including_scheduled=True)) == ["tomorrow"]

    async def test_a_cancelled_run_releases_its_task(self) -> None:
        tasks.begun.clear()
        await tasks.waits.aenqueue()
        running = asyncio.create_task(arun_pending())
        await until(tasks.begun.is_set, "the task begins")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await sync_to_async(counts)(self.database_name) == {"ready": 1}


class Joined(Both, TestCase):
    """The queue's database is the one whose transaction the test runs in."""

    __test__ = False

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        left = count(cls.database_name, "job"), count(cls.database_name, "process")
        connections.close_all()
        assert left == (0, 0)

    def test_everything_stays_inside_the_transaction_of_the_test(self) -> None:
        tasks.saves.enqueue("Ada")
        tasks.limited.enqueue("ada")
        run_pending(raising=True)
        assert count(self.database_name, "job") == 2
        assert self.others_see() == 0

    def test_limited_tasks_stay_blocked_until_they_are_run(self) -> None:
        tasks.limited.enqueue("ada", 1)
        assert counts(self.database_name) == {"blocked": 1}
        (waiting,) = enqueued(tasks.limited)
        assert waiting.args == ["ada", 1]
        assert values(run_pending()) == [1]

    def test_callbacks_of_tasks_can_be_captured(self) -> None:
        with TestCase.captureOnCommitCallbacks(using=self.database_name, execute=True):
            tasks.limited.enqueue("ada")
            tasks.limited.enqueue("ada")
        assert counts(self.database_name) == {"ready": 1, "blocked": 1}
        assert len(run_pending()) == 2


class JoinedToPostgres(Joined):
    """What only PostgreSQL does: after an error it refuses everything until the transaction ends."""

    __test__ = False

    def test_a_task_that_hides_an_error_has_failed_and_what_it_wrote_is_gone(self) -> None:
        Customer.objects.using(self.database_name).create(name="Ada")
        tasks.breaks_in_silence.enqueue("Alan")
        (result,) = run_pending()
        assert result.status == TaskResultStatus.FAILED
        assert "aborted" in result.errors[0].traceback
        assert self.names == ["Ada"]
        tasks.breaks_in_silence.enqueue("Alan")
        with pytest.raises(DatabaseError, match="aborted"):
            run_pending(raising=True)


class InOtherDatabase(InDatabase, TestCase):
    """The queue is in another database than the application's transaction, as a test sees it."""

    __test__ = False

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        connections.close_all()

    def test_what_waits_for_the_commit_of_another_database_is_missing_and_the_message_gives_the_reason(self) -> None:
        tasks.named.enqueue("Ada")
        assert run_pending() == []
        with pytest.raises(AssertionError, match=r"No task is waiting[\s\S]+'default'[\s\S]+captureOnCommitCallbacks"):
            assert_enqueued(tasks.named)

    def test_it_is_there_when_the_callbacks_have_run(self) -> None:
        with TestCase.captureOnCommitCallbacks(using="default", execute=True):
            tasks.named.enqueue("Ada")
            tasks.limited.enqueue("ada", 1)
        assert_enqueued(tasks.named, count=1)
        assert values(run_pending()) == ["Ada", 1]


class Committed(Both, TransactionTestCase):
    """Without a transaction around the test, jobs are committed and flushed."""

    __test__ = False

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        restore_migrated_rows(cls.database_name)
        connections.close_all()

    def test_everything_is_committed(self) -> None:
        tasks.saves.enqueue("Ada")
        run_pending(raising=True)
        with while_in_thread(lambda: self.names) as found:
            assert found.result(WAIT_TIMEOUT_SECONDS) == ["Ada"]

    def test_a_task_that_hides_an_error_is_fine_without_a_transaction(self) -> None:
        tasks.breaks_in_silence.enqueue("Alan")
        run_pending(raising=True)
        assert self.names == ["Alan"]


class TestForbidden(SimpleTestCase):
    """A test that may use no database."""

    database_name = "sqlite"

    def test_nothing_runs_and_the_reason_is_djangos(self) -> None:
        with pointed_at(self.database_name):
            for function in (run_pending, enqueued, partial(assert_enqueued, shop.add)):
                with pytest.raises(AssertionError, match="not allowed"):
                    function()


def on(base: type[Any], database: str, *others: str) -> type[Any]:
    name = f"Test{base.__name__}On{database.capitalize()}"
    body = {"__test__": True, "database_name": database, "databases": {database, *others}}
    return type(name, (base,), {**body, "pytestmark": [pytest.mark.needs(database)]})


TestJoinedOnPostgres = on(JoinedToPostgres, "postgres")
TestJoinedOnMariadb = on(Joined, "mariadb")
TestJoinedOnSqlite = on(Joined, "sqlite")
TestInOtherDatabaseOnPostgres = on(InOtherDatabase, "postgres", "default")
TestInOtherDatabaseOnMariadb = on(InOtherDatabase, "mariadb", "default")
TestInOtherDatabaseOnSqlite = on(InOtherDatabase, "sqlite", "default")
TestCommittedOnPostgres = on(Committed, "postgres")
TestCommittedOnMariadb = on(Committed, "mariadb")
TestCommittedOnSqlite = on(Committed, "sqlite")
