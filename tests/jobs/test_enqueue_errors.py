"""Databases that are down, locked, full or wrong: `EnqueueError`, and nothing is stored."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction

from steady_queue import aenqueue_all, enqueue_all
from steady_queue.errors import EnqueueError, SteadyQueueError, StoreError
from steady_queue.jobs.compat import task_backends
from tests.shop import tasks
from tests.shop.models import Customer
from tests.support.databases.aliases import extra_database, pointed_at, queue_in, twin_settings
from tests.support.databases.tables import count, counts, query
from tests.support.servers import MariaDB, Postgres
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.enqueue import Put

KINDS: dict[str, type[Postgres | MariaDB]] = {"postgres": Postgres, "mariadb": MariaDB}
TASKS = pytest.mark.parametrize("task", [tasks.anything, tasks.charge], ids=["plain", "limited"])
ON_SQLITE = pytest.mark.parametrize("queue", ["sqlite"], indirect=True)


class Boom(Exception):
    pass


# -- a server that stops ----------------------------------------------------------------------------------------------


#: The setup of the module is expensive: its tests stay in one process.
pytestmark = pytest.mark.xdist_group("failures")


class StoppableServer:
    """A database on a server of its own, which tests may stop."""

    def __init__(self, alias: str, server: Postgres | MariaDB) -> None:
        self.alias = alias
        self.server = server


@pytest.fixture(scope="module", params=KINDS)
def own_server(request: pytest.FixtureRequest) -> Iterator[StoppableServer]:
    kind = request.param
    with KINDS[kind]() as server:
        server.create_database("steady_queue")
        settings = twin_settings(kind, HOST=server.host, PORT=server.port, USER=server.user, PASSWORD=server.password)
        with extra_database(f"{kind}_mortal", settings) as alias:
            call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
            yield StoppableServer(alias, server)


@pytest.fixture
def stoppable_server(own_server: StoppableServer) -> Iterator[StoppableServer]:
    """The server; it runs again after the test."""
    with queue_in(own_server.alias):
        yield own_server
        if not own_server.server.running:
            own_server.server.start()


@TASKS
def test_while_the_server_is_down_nothing_is_stored_and_the_caller_gets_an_error(
    stoppable_server: StoppableServer, put: Put, task: Any
) -> None:
    connections[stoppable_server.alias].close()
    stoppable_server.server.kill()
    with pytest.raises(EnqueueError, match=task.module_path) as caught:
        put(task, "ada")
    assert (caught.value.stored, len(caught.value.result_ids)) == ("no", 1)
    stoppable_server.server.start()
    assert count(stoppable_server.alias, "job") == 0
    put(task, "ada")
    assert counts(stoppable_server.alias) == {"ready": 1}


def test_while_the_server_is_down_a_bulk_names_every_result(stoppable_server: StoppableServer) -> None:
    connections[stoppable_server.alias].close()
    stoppable_server.server.stop()
    for way in (enqueue_all, lambda calls: asyncio.run(aenqueue_all(calls))):
        with pytest.raises(EnqueueError, match="2 tasks") as caught:
            way([tasks.add.bind(1), tasks.add.bind(2)])
        assert (caught.value.stored, len(caught.value.result_ids)) == ("no", 2)


def test_while_the_server_is_down_a_result_is_not_reported_as_missing(stoppable_server: StoppableServer) -> None:
    result = tasks.add.enqueue(1)
    connections[stoppable_server.alias].close()
    stoppable_server.server.stop()
    with pytest.raises(SteadyQueueError):
        result.refresh()
    with pytest.raises(StoreError):
        asyncio.run(task_backends["default"].aget_result(result.id))
    stoppable_server.server.start()
    result.refresh()


def test_a_restart_of_the_server_costs_sync_code_at_most_one_enqueue(stoppable_server: StoppableServer) -> None:
    tasks.add.enqueue(1)
    stoppable_server.server.restart()
    refused = 0
    with suppress(EnqueueError):
        refused = 1
        tasks.add.enqueue(2)
        refused = 0
    tasks.add.enqueue(3)
    connections[stoppable_server.alias].close()
    assert count(stoppable_server.alias, "job") == 3 - refused


def test_a_restart_of_the_server_costs_async_code_nothing(stoppable_server: StoppableServer) -> None:
    async def main() -> None:
        await asyncio.gather(*(tasks.add.aenqueue(number) for number in range(4)))
        await asyncio.to_thread(stoppable_server.server.restart)
        await asyncio.gather(*(tasks.add.aenqueue(number) for number in range(4)))

    asyncio.run(main())
    connections[stoppable_server.alias].close()
    assert count(stoppable_server.alias, "job") == 8


def test_a_server_that_dies_inside_the_callers_transaction_leaves_nothing(stoppable_server: StoppableServer) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(using=stoppable_server.alias):
        Customer.objects.using(stoppable_server.alias).create(name="Ada")
        tasks.add.enqueue(1)
        stoppable_server.server.kill()
        with pytest.raises(EnqueueError) as caught:
            tasks.add.enqueue(2)
    assert caught.value.stored == "no"
    stoppable_server.server.start()
    assert count(stoppable_server.alias, "job") == 0
    assert not Customer.objects.using(stoppable_server.alias).exists()


def test_an_enqueue_that_was_deferred_fails_at_the_commit_if_the_server_is_down(
    stoppable_server: StoppableServer,
) -> None:
    connections[stoppable_server.alias].close()
    with pytest.raises(EnqueueError) as caught, transaction.atomic(using="default"):
        tasks.add.enqueue(1)
        stoppable_server.server.stop()
    assert caught.value.stored == "no"


@pytest.mark.parametrize("own_server", ["mariadb"], indirect=True)
def test_a_packet_that_the_server_refuses_is_not_stored(stoppable_server: StoppableServer, put: Put) -> None:
    query(stoppable_server.alias, "SET GLOBAL max_allowed_packet = 1048576")
    connections[stoppable_server.alias].close()
    with pytest.raises(EnqueueError) as caught:
        put(tasks.anything, "x" * 2_000_000)
    assert caught.value.stored == "no"
    connections[stoppable_server.alias].close()
    query(stoppable_server.alias, "SET GLOBAL max_allowed_packet = 16777216")
    assert count(stoppable_server.alias, "job") == 0


# -- conflicts inside the caller's transaction ------------------------------------------------------------------------

#: Statements that make a connection the victim of a deadlock or of a lock timeout.
GIVES_WAY = {"postgres": "SET deadlock_timeout = '10ms'", "mariadb": "SET innodb_lock_wait_timeout = 50"}
LOCKS_JOBS = {
    "postgres": "LOCK TABLE steady_queue_job IN SHARE MODE",
    "mariadb": "SELECT id FROM steady_queue_job FOR UPDATE",
}


@pytest.mark.parametrize("queue", ["postgres", "mariadb"], indirect=True)
def test_a_deadlock_in_the_callers_transaction_is_reported_and_nothing_is_committed(queue: str) -> None:
    ada = Customer.objects.using(queue).create(name="Ada")
    jobs_locked, ada_locked = threading.Event(), threading.Event()

    def other() -> None:
        connection = connections[queue]
        if connection.vendor == "mysql":
            query(queue, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with transaction.atomic(using=queue):
            # The server ends the transaction that has done less.
            Customer.objects.using(queue).bulk_create(Customer(name=str(number)) for number in range(500))
            query(queue, LOCKS_JOBS[queue])
            jobs_locked.set()
            assert ada_locked.wait(WAIT_TIMEOUT_SECONDS)
            Customer.objects.using(queue).filter(pk=ada.pk).update(name="other")

    with while_in_thread(other):
        assert jobs_locked.wait(WAIT_TIMEOUT_SECONDS)
        query(queue, GIVES_WAY[queue])
        with transaction.atomic(using=queue):
            Customer.objects.using(queue).filter(pk=ada.pk).update(name="mine")
            ada_locked.set()
            with pytest.raises(EnqueueError) as caught:
                tasks.charge.enqueue("ada")
            assert caught.value.stored == "no"
            assert connections[queue].needs_rollback
            with pytest.raises(DatabaseError):
                Customer.objects.using(queue).count()
    assert count(queue, "job") == 0
    ada.refresh_from_db(using=queue)
    assert ada.name == "other"


@pytest.mark.parametrize("queue", ["mariadb"], indirect=True)
@TASKS
def test_a_lock_timeout_in_the_callers_transaction_is_reported(queue: str, task: Any) -> None:
    with held(queue, ("LOCK TABLES steady_queue_job READ", [])):
        query(queue, "SET lock_wait_timeout = 0")
        with transaction.atomic(using=queue):
            Customer.objects.using(queue).create(name="Ada")
            with pytest.raises(EnqueueError) as caught:
                task.enqueue("ada")
            assert caught.value.stored == "no"
            assert connections[queue].needs_rollback
    assert count(queue, "job") == 0
    assert not Customer.objects.using(queue).exists()


# -- SQLite -----------------------------------------------------------------------------------------------------------

WRITES: tuple[str, list[Any]] = ("DELETE FROM steady_queue_pause", [])


@pytest.fixture
def short_busy_timeout(queue: str) -> Iterator[str]:
    """Another alias of the queue's SQLite file, with a short busy timeout."""
    settings = twin_settings(queue, OPTIONS={"timeout": 0.05})
    with extra_database("sqlite_hasty", settings) as alias, pointed_at(alias):
        yield alias


@ON_SQLITE
@TASKS
def test_a_database_that_stays_busy_is_reported_and_nothing_is_stored(
    queue: str, short_busy_timeout: str, put: Put, task: Any
) -> None:
    with held(queue, WRITES):
        with pytest.raises(EnqueueError, match="locked") as caught:
            put(task, "ada")
        assert caught.value.stored == "no"
    assert count(queue, "job") == 0
    put(task, "ada")
    assert count(queue, "job") == 1


@ON_SQLITE
@TASKS
def test_a_database_that_is_busy_inside_the_callers_transaction_is_reported(
    queue: str, short_busy_timeout: str, task: Any
) -> None:
    with transaction.atomic(using=short_busy_timeout):
        assert not Customer.objects.using(short_busy_timeout).exists()
        with held(queue, WRITES):
            with pytest.raises(EnqueueError, match="locked") as caught:
                task.enqueue("ada")
            assert caught.value.stored == "no"
    assert count(queue, "job") == 0


@ON_SQLITE
def test_a_transaction_that_has_read_before_others_wrote_cannot_enqueue(queue: str, short_busy_timeout: str) -> None:
    with transaction.atomic(using=short_busy_timeout):
        assert not Customer.objects.using(short_busy_timeout).exists()
        with while_in_thread(lambda: Customer.objects.using(queue).create(name="Ada")):
            pass
        with pytest.raises(EnqueueError, match="locked") as caught:
            tasks.add.enqueue(1)
        assert caught.value.stored == "no"
    assert count(queue, "job") == 0
    tasks.add.enqueue(1)
    assert count(queue, "job") == 1


@pytest.mark.parametrize("how", ["no directory", "read only", "no tables", "no database"])
def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path, how: str) -> None:
    file = tmp_path / "queue.sqlite3"
    if how == "read only":
        with extra_database("sqlite_new", {"ENGINE": "django.db.backends.sqlite3", "NAME": file}) as alias:
            call_command("migrate", database=alias, run_syncdb=True, verbosity=0)
    elif how == "no database":
        file.write_text("This is a text, and rather a long one, so that SQLite takes it for no empty file." * 20)
    names = {"no directory": str(tmp_path / "missing" / "x"), "read only": f"file:{file}?mode=ro"}
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": names.get(how, str(file)), "OPTIONS": {"timeout": 0.05}}
    with extra_database("sqlite_wrong", settings) as alias, pointed_at(alias):
        with pytest.raises(EnqueueError) as caught:
            tasks.add.enqueue(1)
        assert caught.value.stored == "no"
