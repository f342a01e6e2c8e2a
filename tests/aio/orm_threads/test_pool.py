"""ORM threads by themselves: calls that wait, other threads, ticks of other backends, and the shutdown."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from anyio import move_on_after
from asgiref.sync import sync_to_async
from django.db import connections, transaction

from steady_queue import arguments
from steady_queue.aio import running
from steady_queue.aio.orm_threads.default_executor import DefaultExecutor
from steady_queue.aio.scheduler.other_backends import OtherBackends
from steady_queue.errors import TransactionLeftOpen
from steady_queue.events import OrmCallsWaiting, RecurringFailed, TransactionRolledBack
from steady_queue.jobs.compat import task_finished, task_started
from tests.aio.orm_threads.helpers import (
    SERVERS,
    create_customers,
    customer_names,
    end_connections,
    orm_threads,
    short_orm_timeout,
    start_task,
)
from tests.support.runtime import EmittedEvents, until, values, wait_for_results, worker
from tests.support.tasks import orm
from tests.support.tasks.orm import backend_id, execute
from tests.support.tasks.recording import rests, task_record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.usually_on("postgres", "mariadb", "sqlite")]

POSTGRES = pytest.mark.only_on("postgres")


# -- waiting ----------------------------------------------------------------------------------------------------------


@SERVERS
async def test_waiting_tasks_are_spread_over_the_threads_that_become_free(database: str) -> None:
    holding, free = 0, asyncio.Event()
    threads = set()

    async def holds() -> None:
        nonlocal holding
        async with orm.async_atomic():
            holding += 1
            await free.wait()

    async def waits() -> None:
        threads.add(await sync_to_async(slow)())

    def slow() -> int:
        execute("SELECT pg_sleep(0.02)" if database == "postgres" else "SELECT SLEEP(0.02)")
        return threading.get_ident()

    async with orm_threads(4) as pool:
        holders = [start_task(pool, holds) for _ in range(4)]
        await until(lambda: holding == 4)
        waiting = [start_task(pool, waits) for _ in range(40)]
        await until(lambda: len(pool.waiting) == 40)
        free.set()
        await asyncio.gather(*holders, *waiting)
    assert len(threads) == 4


@SERVERS
async def test_a_call_that_is_queued_when_the_threads_end_is_answered(database: str) -> None:
    go, inside = threading.Event(), asyncio.Event()

    async def holds() -> None:
        await sync_to_async(transaction.atomic(using=database).__enter__)()
        inside.set()
        await sync_to_async(go.wait)(30)

    async with orm_threads(1) as pool:
        holder = start_task(pool, holds)
        await inside.wait()
        other = start_task(pool, lambda: orm.write("never"))
        await until(lambda: pool.threads[0]._calls.qsize() == 1)
        pool.shutdown()
        go.set()
        with pytest.raises(RuntimeError, match="has stopped"):
            await other
        await holder
    assert not await customer_names(database)


# -- other threads, hooks, receivers, ticks ---------------------------------------------------------------------------


@asynccontextmanager
async def one_other_thread() -> AsyncIterator[None]:
    """The default executor of the event loop, as the command has it, but with a single thread."""
    threads = DefaultExecutor()
    threads._max_workers = 1
    asyncio.get_running_loop().set_default_executor(threads)
    try:
        yield
    finally:
        await asyncio.to_thread(connections.close_all)


@SERVERS
async def test_a_transaction_that_is_left_open_in_another_thread_is_rolled_back_and_reported(database: str) -> None:
    def leaves_open() -> None:
        transaction.set_autocommit(False, using=database)
        create_customers(database, "lost")

    async with one_other_thread():
        with pytest.raises(TransactionLeftOpen):
            await asyncio.to_thread(leaves_open)
        await asyncio.to_thread(create_customers, database, "kept")
    assert await customer_names(database) == {"kept"}


@SERVERS
async def test_connections_of_other_threads_are_replaced_too(database: str) -> None:
    async with one_other_thread():
        first = await asyncio.to_thread(backend_id)
        await sync_to_async(end_connections, thread_sensitive=True)(database, [first])
        assert await asyncio.to_thread(backend_id) != first


@SERVERS
@pytest.mark.parametrize("task", [orm.leaves_open, orm.leaves_open_in_thread], ids=["async", "sync"])
async def test_what_a_receiver_writes_is_not_rolled_back_with_the_task(database: str, task: Any) -> None:
    def writes(**kwargs: object) -> None:
        create_customers(database, "receiver")

    task_record.gate.set()
    task_finished.connect(writes)
    try:
        async with running(worker(coroutines=2, threads=1, orm_lanes=1)):
            await wait_for_results(await task.aenqueue(*(["x", "atomic"] if task is orm.leaves_open else ["atomic"])))
    finally:
        task_finished.disconnect(writes)
    assert await customer_names(database) == {"receiver"}


@SERVERS
async def test_a_transaction_that_a_receiver_leaves_open_is_reported(database: str) -> None:
    def leaves_open(**kwargs: object) -> None:
        transaction.set_autocommit(False, using=database)

    emitted = EmittedEvents()
    task_finished.connect(leaves_open)
    try:
        async with running(worker(coroutines=2, orm_lanes=1), events=emitted):
            await values(await rests.aenqueue("x"))
            await until(lambda: bool(emitted.of(TransactionRolledBack)))
    finally:
        task_finished.disconnect(leaves_open)


@SERVERS
async def test_receivers_that_find_all_threads_held_change_no_outcome(database: str) -> None:
    received = []

    def receives(signal: object, **kwargs: object) -> None:
        received.append(signal)

    emitted = EmittedEvents()
    with short_orm_timeout():
        async with running(worker(coroutines=2, orm_lanes=1), events=emitted):
            holder = await orm.uses_atomic.aenqueue("holder", commits=True)
            await until(lambda: task_record.running["holds"] == 1)
            for signal in (task_started, task_finished):
                signal.connect(receives)
            try:
                assert await values(await rests.aenqueue("x")) == ["x"]
            finally:
                for signal in (task_started, task_finished):
                    signal.disconnect(receives)
            task_record.gate.set()
            await values(holder)
    assert received == [task_started, task_finished]
    assert not [event for event in emitted.of(OrmCallsWaiting) if "rests" not in event.task]


@SERVERS
async def test_a_tick_of_another_backend_that_leaves_a_transaction_open_does_not_affect_other_ticks(
    database: str,
) -> None:
    class LeavesOpen:
        async def aenqueue(self) -> None:
            await sync_to_async(transaction.atomic(using=database).__enter__)()

    class Writes:
        async def aenqueue(self) -> None:
            await orm.write("tick")

    def planned(task: object) -> Any:
        return SimpleNamespace(task=task, entry=SimpleNamespace(new=SimpleNamespace(arguments=stored, task_key="key")))

    stored = arguments.dumps([], {})
    emitted = EmittedEvents()
    other_backends = OtherBackends(events=emitted)
    enqueuing = asyncio.create_task(other_backends.run())
    for task in (LeavesOpen(), Writes()):
        other_backends.put(planned(task))
    await other_backends.drain(move_on_after)
    enqueuing.cancel()
    with suppress(asyncio.CancelledError):
        await enqueuing
    (failed,) = emitted.of(RecurringFailed)
    assert isinstance(failed.exception, TransactionLeftOpen)
    assert await customer_names(database) == {"tick"}


@POSTGRES
async def test_a_thread_whose_holder_lost_its_connection_has_a_working_one_afterwards(database: str) -> None:
    async def loses_connection() -> None:
        await sync_to_async(execute)("BEGIN")
        with suppress(Exception):
            await sync_to_async(execute)("SELECT pg_terminate_backend(pg_backend_pid())")
        assert not pool.threads[0].holder

    async with orm_threads(1) as pool:
        await start_task(pool, loses_connection)
        await start_task(pool, lambda: orm.write("after"))
    assert await customer_names(database) == {"after"}
