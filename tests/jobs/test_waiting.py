"""Waiting for the end of a task: in sync and in async code, for every way in which a task ends."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import transaction
from django.db.transaction import TransactionManagementError

from steady_queue import SteadyQueueResult, TaskState
from steady_queue.db import watcher as watchers
from steady_queue.db.watch import LISTENING, POLLING
from steady_queue.errors import StoreNotMigrated
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.job import FailureKind, Lane
from steady_queue.store.operations.results import find_states
from steady_queue.store.outcome import Failed
from tests.shop import tasks
from tests.support.databases.aliases import pointed_at
from tests.support.processes.scripts import run_script
from tests.support.store.manual_worker import Worker, report
from tests.support.store.stores import SyncStore
from tests.support.threads import WAIT_TIMEOUT_SECONDS, closing, while_in_thread
from tests.support.wait import until
from tests.support.watches import has_read_all, watches_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.contract


class WaitFor(Protocol):
    """Waits for a result, in sync or in async code."""

    def __call__(self, result: SteadyQueueResult[Any], timeout: Any = None) -> SteadyQueueResult[Any]: ...


def by_wait(result: SteadyQueueResult[Any], timeout: Any = None) -> SteadyQueueResult[Any]:
    return result.wait(timeout)


def by_awaited(result: SteadyQueueResult[Any], timeout: Any = None) -> SteadyQueueResult[Any]:
    return asyncio.run(result.awaited(timeout), debug=True)


@pytest.fixture(params=[by_wait, by_awaited], ids=["wait", "awaited"])
def wait_for(request: pytest.FixtureRequest) -> WaitFor:
    way: WaitFor = request.param
    return way


def when_waited_for(database: str, action: Callable[[], object]) -> Callable[[], None]:
    """The action, after the watcher has read every job that is waited for."""

    def act() -> None:
        deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
        while not has_read_all(database):
            assert time.monotonic() < deadline, "the watcher has not read the job"
            time.sleep(0.005)
        action()

    return act


# -- the end of a task ------------------------------------------------------------------------------------------------


def test_waiting_for_a_task_that_has_ended_returns_the_same_result_at_once(database: str, wait_for: WaitFor) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.finish(worker.claim(), "42")
    assert wait_for(result, 0.5 if wait_for is by_wait else timedelta(seconds=20)) is result
    assert (result.return_value, result.state, result.attempts) == (42, TaskState.FINISHED, 1)


def test_waiting_without_time_returns_if_the_task_has_ended(database: str, wait_for: WaitFor) -> None:
    result, other = tasks.add.enqueue(1), tasks.add.enqueue(2)
    worker = Worker(database)
    with pytest.raises(TimeoutError, match="has not ended within 0 s: it is ready"):
        wait_for(result, 0)
    worker.finish(worker.claim(), "42")
    assert wait_for(result, 0).return_value == 42
    assert wait_for(result, timedelta(0)).return_value == 42
    with pytest.raises(TimeoutError, match="has not ended within 0 s: it is ready"):
        wait_for(other, 0)


def test_waiting_ends_when_the_task_does(database: str, wait_for: WaitFor) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    claimed = worker.claim()
    with while_in_thread(when_waited_for(database, lambda: worker_of(database).finish(claimed, '"done"'))):
        assert wait_for(result).return_value == "done"


def worker_of(database: str) -> Worker:
    return Worker(database, name="worker-2")


@pytest.mark.parametrize("kind", FailureKind, ids=lambda kind: kind.name.lower())
def test_waiting_ends_with_every_kind_of_failure(database: str, wait_for: WaitFor, kind: FailureKind) -> None:
    """R7 of raquel: failed, exhausted, cancelled and expired are states of their own."""
    result = tasks.add.enqueue(1)
    store = SyncStore(database)
    (claimed,) = store.claim(store.worker("worker-1"), lane=Lane.THREAD)
    store.settle(Failed(claimed, report(ValueError("no")), kind=kind), process_name="worker-1")
    wait_for(result, 20)
    assert result.state == kind.name.lower()
    assert result.state.is_final
    assert [error.exception_class for error in result.errors] == [ValueError]
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_task_that_does_not_end_in_time_raises_timeout_error_with_its_state(database: str, wait_for: WaitFor) -> None:
    result = tasks.add.enqueue(1)
    Worker(database).claim()
    with pytest.raises(TimeoutError) as refused:
        wait_for(result, 0.2)
    assert str(refused.value) == (
        f"the task tests.shop.tasks.add ({result.id}) has not ended within 0.2 s: it is running"
    )
    assert not watchers.watcher(database).has_watches


@pytest.mark.parametrize(
    ("timeout", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)]
)
def test_a_timeout_that_makes_no_sense_is_refused(
    database: str, wait_for: WaitFor, timeout: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="timeout must"):
        wait_for(tasks.add.enqueue(1), timeout)


def test_a_task_that_is_deleted_while_it_is_waited_for_is_an_error_that_explains_it(
    database: str, wait_for: WaitFor
) -> None:
    result = tasks.add.enqueue(1)
    remove = when_waited_for(database, lambda: worker_of(database).discard(result.id))
    with while_in_thread(remove), pytest.raises(TaskResultDoesNotExist, match="preserve_finished_jobs is False"):
        wait_for(result, 20)


def test_waiting_for_a_task_that_does_not_exist_is_an_error(database: str, wait_for: WaitFor) -> None:
    result = tasks.add.enqueue(1)
    Worker(database).discard(result.id)
    with pytest.raises(TaskResultDoesNotExist, match=result.id):
        wait_for(result, 20)


def test_waiting_in_a_database_without_tables_names_the_command_to_run(unmigrated: str, wait_for: WaitFor) -> None:
    result = tasks.add.enqueue(1)
    with pointed_at(unmigrated), pytest.raises(StoreNotMigrated, match="migrate"):
        wait_for(result, 20)


# -- where it is refused ----------------------------------------------------------------------------------------------


def test_waiting_inside_a_transaction_is_refused_at_once(database: str) -> None:
    with transaction.atomic(using=database):
        result = tasks.add.enqueue(1)
        with pytest.raises(TransactionManagementError, match="after the atomic block"):
            result.wait()
        with pytest.raises(TransactionManagementError, match="after the atomic block"):
            async_to_sync(result.awaited)()


def test_inside_a_transaction_a_task_that_has_ended_can_be_waited_for(database: str) -> None:
    result = tasks.add.enqueue(1)
    worker = Worker(database)
    worker.finish(worker.claim(), "1")
    with transaction.atomic(using=database):
        assert result.wait().return_value == 1
        assert async_to_sync(result.awaited)().return_value == 1


def test_a_task_that_is_enqueued_when_another_database_commits_cannot_be_waited_for_before(database: str) -> None:
    with transaction.atomic(using="default"):
        result = tasks.add.enqueue(1)
        with pytest.raises(TransactionManagementError, match="'default'"):
            result.wait()


async def blocks_the_loop(result: SteadyQueueResult[Any]) -> None:
    result.wait()


def test_blocking_an_event_loop_is_refused_with_advice(database: str) -> None:
    result = tasks.add.enqueue(1)
    with pytest.raises(SynchronousOnlyOperation, match=r"await result\.awaited"):
        asyncio.run(blocks_the_loop(result))


# -- many callers -----------------------------------------------------------------------------------------------------


def test_callers_in_threads_and_in_loops_share_the_statements(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def noted(sql: Any, ids: list[Any], **options: Any) -> Any:
        reads.append(len(ids))
        return find_states(sql, ids, **options)

    monkeypatch.setattr(watchers, "find_states", noted)
    results = [tasks.add.enqueue(number) for number in range(60)]

    async def all_of(some: list[SteadyQueueResult[int]]) -> None:
        await asyncio.gather(*(result.awaited(WAIT_TIMEOUT_SECONDS) for result in some))

    worker = Worker(database)
    with ThreadPoolExecutor(22) as threads:
        waits: list[Future[Any]] = [
            threads.submit(closing, result.wait, WAIT_TIMEOUT_SECONDS) for result in results[:20]
        ]
        waits += [threads.submit(asyncio.run, all_of(part)) for part in (results[20:40], results[40:])]
        when_waited_for(database, lambda: None)()
        while len(watches_of(database)) < 60 or not has_read_all(database):
            time.sleep(0.005)
        before = len(reads)
        for _ in results:
            worker.finish(worker.claim(), "1")
        for wait in waits:
            wait.result()
    assert [result.return_value for result in results] == [1] * 60
    assert max(reads) > 30
    assert len(reads) - before < 400


def test_a_caller_that_is_cancelled_is_forgotten(database: str) -> None:
    async def cancel() -> None:
        result = await tasks.add.aenqueue(1)
        waiting = asyncio.create_task(result.awaited())
        await until(lambda: watchers.watcher(database).has_watches)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await result.awaited()

    asyncio.run(cancel())
    assert not watchers.watcher(database).has_watches


def test_the_thread_ends_after_the_last_caller(database: str, wait_for: WaitFor) -> None:
    with pytest.raises(TimeoutError):
        wait_for(tasks.add.enqueue(1), 0.01)
    deadline = time.monotonic() + WAIT_TIMEOUT_SECONDS
    while any(thread.name == "steady-queue-watcher" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_pause_between_two_reads_grows_with_the_time_waited() -> None:
    assert [POLLING.pause_seconds(waited) for waited in (0, 0.05, 1, 5, 100)] == [0.01, 0.01, 0.1, 0.5, 1.0]
    assert [LISTENING.pause_seconds(waited) for waited in (0, 0.1, 1, 5)] == [0.02, 0.1, 1.0, 2.0]


# -- programs ---------------------------------------------------------------------------------------------------------

WAITS_AND_EXITS = """
import os, sys
from steady_queue.jobs.compat import TaskResultStatus

def times_out():
    try:
        add.enqueue(1).wait(0.05)
    except TimeoutError:
        return True

async def atimes_out():
    result = await add.aenqueue(1)
    try:
        await result.awaited(0.05)
    except TimeoutError:
        return True

assert times_out()
child = os.fork()
if not child:
    # The thread of the parent does not exist here.
    os._exit(0 if times_out() and asyncio.run(atimes_out()) else 1)
assert os.waitpid(child, 0)[1] == 0
assert times_out() and asyncio.run(atimes_out())

async def leave():
    waiting = asyncio.create_task((await add.aenqueue(1)).awaited())
    await asyncio.sleep(0.05)
    waiting.cancel()
asyncio.run(leave())
"""


def test_a_program_that_waits_exits_without_delay_and_its_forked_children_wait_as_well(database: str) -> None:
    # Python warns of a fork while other threads run, which is what web servers do.
    began = time.monotonic()
    run_script(
        "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
        "from django.db import connections; connections.close_all()\n" + WAITS_AND_EXITS,
        alias=database,
    )
    assert time.monotonic() - began < 15
