"""Transactions of async tasks that share few ORM threads: no task notices the transaction of another."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

import steady_queue
from steady_queue.aio import running
from steady_queue.events import OrmCallsWaiting, TransactionRolledBack
from tests.aio.orm_threads.helpers import SERVERS, THREADS, customer_names, short_orm_timeout
from tests.support.runtime import EmittedEvents, enqueue_each, error_of, until, values, wait_for_results, worker
from tests.support.tasks import orm
from tests.support.tasks.recording import task_record

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

LEFT_OPEN = "steady_queue.errors.TransactionLeftOpen"


def _ways(database: str) -> list[str]:
    """How a transaction can be left open so that it is noticed: mysqlclient does not report one begun by SQL."""
    return ["atomic", "autocommit off"] + ([] if database == "mariadb" else ["by hand"])


@SERVERS
async def test_what_other_tasks_write_during_an_open_transaction_is_kept(database: str) -> None:
    async with running(worker(coroutines=100, orm_lanes=THREADS)):
        holders = [await orm.leaves_open.aenqueue(f"holder {way}", way) for way in _ways(database)]
        await until(lambda: task_record.running["holds"] == len(holders))
        others = [f"other {number}" for number in range(80)]
        await values(*await enqueue_each(orm.writes, others))
        task_record.gate.set()
        await wait_for_results(*holders)
    assert {error_of(holder) for holder in holders} == {LEFT_OPEN}
    assert "on the database" in holders[0].errors[0].traceback
    assert await customer_names(database) == set(others)


@pytest.mark.parametrize("commits", [True, False], ids=["commits", "rolls back"])
@SERVERS
async def test_other_tasks_wait_while_every_thread_is_held_and_lose_nothing(database: str, commits: bool) -> None:
    async with running(worker(coroutines=200, orm_lanes=THREADS)):
        names = [f"holder {number}" for number in range(THREADS)]
        holders = [await orm.uses_atomic.aenqueue(name, commits=commits) for name in names]
        await until(lambda: task_record.running["holds"] == THREADS)
        others = [f"other {number}" for number in range(120)]
        results = await enqueue_each(orm.writes, others)
        await until(lambda: task_record.running["writes"] == len(others))
        assert not await customer_names(database)
        task_record.gate.set()
        await values(*holders, *results)
    kept = {kind for name in names for kind in (name, f"{name} again")} if commits else set()
    assert await customer_names(database) == kept | set(others)


async def test_a_thread_goes_on_after_a_task_that_left_a_transaction_open(database: str) -> None:
    task_record.gate.set()
    async with running(worker(coroutines=1, orm_lanes=1)):
        for way in _ways(database):
            (left,) = await wait_for_results(await orm.leaves_open.aenqueue("lost", way))
            assert error_of(left) == LEFT_OPEN
            await values(await orm.writes.aenqueue(f"after {way}"))
    assert await customer_names(database) == {f"after {way}" for way in _ways(database)}


async def test_a_task_that_raises_inside_a_transaction_fails_with_its_own_error(database: str) -> None:
    async with running(worker(coroutines=10, orm_lanes=1)):
        (raised,) = await wait_for_results(await orm.raises_in_transaction.aenqueue("lost"))
        assert error_of(raised) == "builtins.LookupError"
        await values(await orm.writes.aenqueue("after"))
    assert await customer_names(database) == {"after"}


async def test_a_task_that_is_stopped_inside_a_transaction_leaves_nothing_of_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steady_queue, "shutdown_timeout", timedelta(0))
    result = await orm.is_stopped_in_transaction.aenqueue("stopped")
    async with running(worker(coroutines=1, orm_lanes=1)):
        await until(lambda: task_record.running["holds"] == 1)
    async with running(worker(coroutines=1, orm_lanes=1)):
        await values(result)
    assert not await customer_names(database)


@pytest.mark.parametrize("how", ["atomic", "autocommit off"])
async def test_a_sync_task_that_leaves_a_transaction_open_fails(database: str, how: str) -> None:
    async with running(worker(threads=1)):
        (left,) = await wait_for_results(await orm.leaves_open_in_thread.aenqueue(how))
        assert error_of(left) == LEFT_OPEN
    assert not await customer_names(database)


async def test_child_tasks_of_a_holder_use_its_transaction(database: str) -> None:
    async with running(worker(coroutines=4, orm_lanes=2)):
        await values(await orm.gathers.aenqueue("child"))
    assert await customer_names(database) == {f"child {number}" for number in range(5)}


@SERVERS
async def test_a_call_that_waits_too_long_fails_and_names_the_holder(database: str) -> None:
    emitted = EmittedEvents()
    with short_orm_timeout():
        async with running(worker(coroutines=2, orm_lanes=1), events=emitted):
            holder = await orm.uses_atomic.aenqueue("holder", commits=True)
            await until(lambda: task_record.running["holds"] == 1)
            (late,) = await wait_for_results(await orm.writes.aenqueue("late"))
            task_record.gate.set()
            await values(holder, await orm.writes.aenqueue("after"))
    assert error_of(late) == "steady_queue.errors.OrmThreadTimeout"
    assert f"tests.support.tasks.orm.uses_atomic {UUID(holder.id)}" in late.errors[0].traceback
    assert await customer_names(database) == {"holder", "holder again", "after"}


@SERVERS
async def test_a_call_that_waits_is_reported_once_with_the_holder(database: str) -> None:
    emitted = EmittedEvents()
    async with running(worker(coroutines=2, orm_lanes=1), events=emitted):
        holder = await orm.uses_atomic.aenqueue("holder", commits=True)
        await until(lambda: task_record.running["holds"] == 1)
        other = await orm.writes.aenqueue("other")
        await until(lambda: bool(emitted.of(OrmCallsWaiting)))
        task_record.gate.set()
        await values(holder, other)
    (waiting,) = emitted.of(OrmCallsWaiting)
    assert waiting.task.startswith("tests.support.tasks.orm.writes")
    assert waiting.holders.startswith("tests.support.tasks.orm.uses_atomic")


async def test_a_transaction_that_is_opened_after_the_task_has_ended_is_rolled_back(database: str) -> None:
    emitted = EmittedEvents()
    orm.children.clear()
    async with running(worker(coroutines=4, orm_lanes=1), events=emitted):
        await values(await orm.leaves_child_behind.aenqueue("late"))
        task_record.gate.set()
        await until(lambda: bool(emitted.of(TransactionRolledBack)))
        await values(await orm.writes.aenqueue("after"))
        await orm.children[0]
    assert emitted.of(TransactionRolledBack)[0].task.startswith("tests.support.tasks.orm.leaves_child_behind")
    assert await customer_names(database) == {"after"}
