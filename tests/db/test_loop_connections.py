"""`aenqueue()`: on a connection of the running loop, closed with it; called from sync code, on Django's own."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connections, transaction
from django.test import override_settings

from steady_queue import aenqueue_all
from steady_queue.db import loop_connections
from tests.shop import tasks
from tests.support.databases.connections import open_connections
from tests.support.databases.tables import count, counts, query
from tests.support.processes.scripts import run_script
from tests.support.servers import wait_until
from tests.support.threads import WAIT_TIMEOUT_SECONDS, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.contract

OURS = "steady_queue.backend.SteadyQueueBackend"


class Boom(Exception):
    pass


@pytest.fixture
def nothing_leaks(database: str) -> Iterator[None]:
    """At the end there are as many connections and threads as at the start."""
    asyncio.run(sync_to_async(connections.close_all)())  # starts asgiref's thread for sync code, which stays
    query(database, "SELECT 1")
    connections_before, threads_before = open_connections(database), threading.active_count()
    yield
    wait_until(
        lambda: open_connections(database) <= connections_before, "the connections are closed", WAIT_TIMEOUT_SECONDS
    )
    wait_until(lambda: threading.active_count() <= threads_before, "the threads have ended", WAIT_TIMEOUT_SECONDS)


class Seen:
    """The statements that Django's connection was given in one thread."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.statements: list[str] = []

    def note(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.statements.append(sql)
        return execute(sql, params, many, context)

    async def __aenter__(self) -> list[str]:
        await sync_to_async(lambda: connections[self.alias].execute_wrappers.append(self.note))()
        return self.statements

    async def __aexit__(self, *exception: object) -> None:
        await sync_to_async(lambda: connections[self.alias].execute_wrappers.remove(self.note))()
        await sync_to_async(connections.close_all)()


# -- in a loop --------------------------------------------------------------------------------------------------------


def test_a_job_is_committed_when_aenqueue_returns(database: str, nothing_leaks: None) -> None:
    async def main() -> int:
        await tasks.add.aenqueue(1)
        with while_in_thread(lambda: count(database, "job")) as found:
            return found.result(WAIT_TIMEOUT_SECONDS)

    assert asyncio.run(main(), debug=True) == 1


def test_in_a_loop_djangos_connection_is_not_used(database: str, nothing_leaks: None) -> None:
    async def main() -> list[str]:
        async with Seen(database) as statements:
            await tasks.charge.aenqueue("ada")
            await aenqueue_all([tasks.add.bind(1)])
        return statements

    assert asyncio.run(main(), debug=True) == []
    assert count(database, "job") == 2


def test_many_at_once_share_a_few_connections(database: str, nothing_leaks: None) -> None:
    before = open_connections(database)
    most = 0

    async def main() -> None:
        nonlocal most
        await asyncio.gather(*(tasks.add.aenqueue(number) for number in range(150)))
        await asyncio.gather(*(tasks.charge.aenqueue(number % 10) for number in range(50)))
        with while_in_thread(lambda: open_connections(database)) as found:
            most = found.result(WAIT_TIMEOUT_SECONDS)

    asyncio.run(main())
    assert counts(database) == {"ready": 160, "blocked": 40}
    assert 1 <= most - before <= 6


def test_one_loop_after_another_leaves_nothing_open(database: str, nothing_leaks: None) -> None:
    for number in range(10):
        asyncio.run(tasks.add.aenqueue(number), debug=True)
    assert count(database, "job") == 10


def test_a_thread_with_a_loop_of_its_own_enqueues_while_another_loop_runs(database: str, nothing_leaks: None) -> None:
    async def main() -> None:
        await tasks.add.aenqueue(1)
        with while_in_thread(lambda: asyncio.run(tasks.add.aenqueue(2))) as other:
            await asyncio.wrap_future(other)
        await tasks.add.aenqueue(3)

    asyncio.run(main(), debug=True)
    assert count(database, "job") == 3


def test_a_loop_that_ends_with_an_error_leaves_nothing_open(database: str, nothing_leaks: None) -> None:
    async def main() -> None:
        await tasks.add.aenqueue(1)
        raise Boom

    with pytest.raises(Boom):
        asyncio.run(main(), debug=True)
    assert count(database, "job") == 1


@pytest.mark.parametrize("end", ["loop.close()", "pass"])
def test_a_program_that_does_not_shut_its_loop_down_exits_without_a_message(database: str, end: str) -> None:
    # The asgi worker of gunicorn closes its loop in this way. asyncio's own warning about the socket is hidden by
    # default; the drivers' tracebacks at exit would not be.
    text = f"""
import warnings
warnings.simplefilter("ignore", ResourceWarning)
loop = asyncio.new_event_loop()
loop.run_until_complete(add.aenqueue(1))
{end}
"""
    run_script(text, alias=database)
    assert count(database, "job") == 1


@pytest.mark.only_on("postgres")
def test_a_forked_process_does_not_close_the_connections_of_its_parent(database: str) -> None:
    text = """
import atexit, os
with asyncio.Runner() as runner:
    runner.run(add.aenqueue(1))
    if (child := os.fork()) == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    runner.run(add.aenqueue(2))
"""
    run_script(text, alias=database)
    assert count(database, "job") == 2


def test_connections_that_were_closed_are_opened_again(database: str, nothing_leaks: None) -> None:
    async def main() -> None:
        await tasks.add.aenqueue(1)
        await loop_connections.close()
        await loop_connections.close()
        await tasks.add.aenqueue(2)

    asyncio.run(main(), debug=True)
    assert count(database, "job") == 2


def test_sync_enqueue_in_a_loop_is_refused_and_stores_nothing(database: str) -> None:
    async def main() -> None:
        tasks.add.enqueue(1)

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(main())
    assert count(database, "job") == 0


def test_sync_enqueue_in_a_thread_of_the_loop_works(database: str) -> None:
    async def main() -> None:
        await sync_to_async(tasks.add.enqueue)(1)
        await sync_to_async(connections.close_all)()

    asyncio.run(main(), debug=True)
    assert count(database, "job") == 1


# -- under async_to_sync ----------------------------------------------------------------------------------------------


def test_called_from_sync_code_it_joins_the_callers_transaction(database: str, nothing_leaks: None) -> None:
    async def main() -> None:
        result = await tasks.add.aenqueue(1)
        await asyncio.gather(tasks.add.aenqueue(2), tasks.charge.aenqueue("ada"))
        await aenqueue_all([tasks.add.bind(3)])
        assert (await tasks.add.aget_result(result.id)).args == [1]
        await result.arefresh()

    with pytest.raises(Boom), transaction.atomic(using=database):
        async_to_sync(main)()
        assert count(database, "job") == 4
        raise Boom
    assert count(database, "job") == 0
    with transaction.atomic(using=database):
        async_to_sync(main)()
    assert counts(database) == {"ready": 4}


def test_called_from_sync_code_it_waits_for_the_commit_of_another_database(database: str) -> None:
    with transaction.atomic(using="default"):
        async_to_sync(tasks.add.aenqueue)(1)
        assert count(database, "job") == 0
    assert count(database, "job") == 1


def test_called_from_sync_code_in_a_loops_thread_it_joins_that_threads_transaction(database: str) -> None:
    def sync_code() -> None:
        with pytest.raises(Boom), transaction.atomic(using=database):
            async_to_sync(tasks.add.aenqueue)(1)
            assert count(database, "job") == 1
            raise Boom
        connections.close_all()

    async def main() -> None:
        await sync_to_async(sync_code)()

    asyncio.run(main(), debug=True)
    assert count(database, "job") == 0


def test_a_task_that_outlives_its_async_to_sync_enqueues_by_itself(database: str, nothing_leaks: None) -> None:
    async def main() -> None:
        returned = asyncio.Event()
        later: list[asyncio.Task[Any]] = []

        async def background() -> None:
            await returned.wait()
            await tasks.add.aenqueue(1)

        async def view() -> None:
            later.append(asyncio.create_task(background()))

        await sync_to_async(async_to_sync(view))()
        returned.set()
        await later[0]

    asyncio.run(main(), debug=True)
    assert count(database, "job") == 1


# -- by choice --------------------------------------------------------------------------------------------------------


def chosen(how: str) -> override_settings:
    return override_settings(TASKS={"default": {"BACKEND": OURS, "OPTIONS": {"aenqueue": how}}})


@pytest.mark.parametrize("how", ["django", "native"])
def test_the_settings_choose_the_connection_in_a_loop(database: str, how: str) -> None:
    async def main() -> list[str]:
        async with Seen(database) as statements:
            result = await tasks.add.aenqueue(1)
            await tasks.add.aget_result(result.id)
        return statements

    with chosen(how):
        statements = asyncio.run(main(), debug=True)
    assert bool(statements) == (how == "django")
    assert count(database, "job") == 1


def test_the_settings_choose_the_connection_under_async_to_sync(database: str, nothing_leaks: None) -> None:
    async def main() -> list[str]:
        async with Seen(database) as statements:
            await tasks.add.aenqueue(1)
        return statements

    with chosen("native"):
        assert async_to_sync(main)() == []
    with chosen("django"):
        assert async_to_sync(main)() != []
    assert count(database, "job") == 2


@pytest.mark.parametrize("queue", ["postgres", "mariadb"], indirect=True)
def test_a_native_aenqueue_does_not_join_the_callers_transaction(queue: str) -> None:
    with chosen("native"), pytest.raises(Boom), transaction.atomic(using=queue):
        async_to_sync(tasks.add.aenqueue)(1)
        raise Boom
    assert count(queue, "job") == 1
