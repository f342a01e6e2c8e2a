"""Errors of connections: killed, impossible to open, or lost before the reply."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import warnings
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from anyio import CancelScope
from django.db import connections

from steady_queue.db.aliases import open_async
from steady_queue.errors import StoreBug, StoreError, StoreUnavailable
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes.registration import deregister, heartbeat
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Finished, Verdict
from steady_queue.store.statement import Operation
from tests.store.drivers.helpers import select_one, waiting
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import count, counts, query
from tests.support.servers import wait_until
from tests.support.servers.host import free_port
from tests.support.servers.proxy import COMMIT, Proxy
from tests.support.store.jobs import job, limited
from tests.support.store.stores import SyncStore, async_store
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Flow
    from tests.support.servers import MariaDB, Postgres
    from tests.support.store.stores import Store


# -- for real: connections --------------------------------------------------------------------------------------------


def kill(alias: str, session: int) -> None:
    postgres = connections[alias].vendor == "postgresql"
    query(alias, f"SELECT pg_terminate_backend({session})" if postgres else f"KILL {session}")


@pytest.mark.only_on("postgres", "mariadb")
def test_a_connection_killed_during_an_autocommit_statement_leaves_it_unknown(store: Store) -> None:
    worker = store.worker()
    error = killed_while_waiting(store, worker, lambda: store.run(deregister(store.sql, worker)), "DELETE FROM")
    assert isinstance(error, StoreUnavailable)
    assert error.applied == "unknown"


@pytest.mark.only_on("postgres", "mariadb")
def test_a_connection_killed_inside_a_transaction_has_applied_nothing(store: Store) -> None:
    worker = store.worker()
    error = killed_while_waiting(store, worker, lambda: store.worker("again", worker), "DELETE FROM")
    assert isinstance(error, StoreUnavailable)
    assert error.applied == "no"


def killed_while_waiting(store: Store, worker: UUID, action: Callable[[], object], statement: str) -> StoreError:
    """The error of an action on a process's row whose session is killed while it waits for that row."""

    def act() -> StoreError:
        with pytest.raises(StoreError) as caught:
            action()
        return caught.value

    lock = ("SELECT id FROM steady_queue_process WHERE id = %s FOR UPDATE", [worker.hex])
    with held(store.alias, lock), while_in_thread(act) as acting:
        statement = f"{statement} steady_queue_process"
        wait_until(lambda: bool(waiting(store.alias, statement, worker)), "the statement waits")
        (session,) = waiting(store.alias, statement, worker)
        kill(store.alias, session)
        error = acting.result(WAIT_TIMEOUT_SECONDS)
    # The next operation gets another connection.
    assert store.run(heartbeat(store.sql, worker)).is_known is True
    return error


@pytest.mark.only_on("postgres")
def test_a_statement_that_takes_too_long_is_unavailable(store: Store) -> None:
    slow = store.sql.statement("SELECT set_config('statement_timeout', '10ms', true)", returns=".")

    def flow() -> Flow[None]:
        yield slow
        yield store.sql.statement("SELECT pg_sleep(30)", returns=".")

    with pytest.raises(StoreUnavailable) as caught:
        store.run(Operation("slow", flow))
    assert (caught.value.code, caught.value.applied) == ("57014", "no")


# -- for real: other ways in ------------------------------------------------------------------------------------------


@pytest.fixture(params=["sync", "async"])
def store_at(
    request: pytest.FixtureRequest, database: str, portal: BlockingPortal
) -> Iterator[Callable[[dict[str, Any]], Store]]:
    """A store of the same database with other settings."""
    with ExitStack() as opened:

        def store_by(settings: dict[str, Any]) -> Store:
            alias = opened.enter_context(extra_database(f"{database}-{uuid4().hex}", settings))
            return (
                SyncStore(alias)
                if request.param == "sync"
                else opened.enter_context(async_store(alias, portal, size=1))
            )

        yield store_by


@pytest.mark.only_on("postgres", "mariadb")
def test_a_server_that_is_not_there_has_applied_nothing(database: str, store_at: Callable[..., Store]) -> None:
    store = store_at(twin_settings(database, PORT=str(free_port())))
    for new in (job(), limited()):
        with pytest.raises(StoreUnavailable) as caught:
            store.enqueue(new)
        assert caught.value.applied == "no"


@pytest.mark.only_on("postgres", "mariadb")
def test_a_wrong_password_is_shown_as_it_is(database: str, store_at: Callable[..., Store]) -> None:
    store = store_at(twin_settings(database, PASSWORD="wrong"))
    with pytest.raises(StoreError) as caught:
        store.enqueue(job())
    # psycopg does not expose the code of a refused connection.
    assert type(caught.value) is (StoreBug if caught.value.code else StoreUnavailable)
    assert caught.value.applied == "no"
    assert "wrong" not in str(caught.value)


@pytest.mark.only_on("sqlite")
def test_a_busy_sqlite_is_unavailable(database: str, store_at: Callable[..., Store]) -> None:
    store = store_at(twin_settings(database, options={"timeout": 0.01}))
    with held(database, ("DELETE FROM steady_queue_process", ())):
        for new in (job(), limited()):
            with pytest.raises(StoreUnavailable) as caught:
                store.enqueue(new)
            assert (caught.value.code, caught.value.applied) == ("5", "no")
        assert store.find(job()) == []  # readers go on
    store.enqueue(job())
    assert counts(database) == {"ready": 1}


@pytest.mark.only_on("sqlite")
def test_a_sqlite_file_that_cannot_be_opened_is_unavailable(database: str, store_at: Callable[..., Store]) -> None:
    store = store_at(twin_settings(database, NAME="/nowhere/at/all.sqlite3"))
    with pytest.raises(StoreUnavailable) as caught:
        store.enqueue(job())
    assert (caught.value.code, caught.value.applied) == ("14", "no")


@pytest.mark.only_on("sqlite")
def test_a_sqlite_file_without_the_tables_is_a_bug(
    database: str, store_at: Callable[..., Store], tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = store_at(twin_settings(database, NAME=str(tmp_path_factory.mktemp("empty") / "empty.sqlite3")))
    with pytest.raises(StoreBug):
        store.enqueue(job())


# -- for real: answers lost on the way --------------------------------------------------------------------------------

#: The text by which the proxy recognises the request.
MARK = "the answer to this is lost"

IS_MARKED = re.compile(MARK.encode())


@pytest.fixture
def proxy(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[Proxy]:
    with Proxy(servers[database]) as proxy:
        yield proxy


@pytest.fixture
def far_store(database: str, proxy: Proxy, store_at: Callable[..., Store]) -> Store:
    """A connected store behind the proxy that has run every statement once before."""
    store = store_at(twin_settings(database, HOST=proxy.host, PORT=str(proxy.port)))
    for new in (job(), limited("before")):
        store.enqueue(new)
    for claim in store.claim(store.worker(), 9):
        store.settle(Finished(claim))
    query(database, "DELETE FROM steady_queue_job")
    return store


def lost(store: Store, proxy: Proxy, operation: Operation[Any]) -> StoreError:
    """The error of an operation that is carried out, and whose last answer is lost: of its commit or only statement."""
    proxy.lose_answer(COMMIT if operation.transaction else IS_MARKED)
    with pytest.raises(StoreUnavailable) as caught:
        store.run(operation)
    assert proxy.has_lost.is_set()
    connections[store.alias].close()
    return caught.value


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("makes", [[job], [limited], [job, limited, limited, job]])
def test_an_enqueue_whose_answer_was_lost_is_unknown_and_safe_to_send_again(
    database: str, far_store: Store, proxy: Proxy, makes: list[Callable[..., NewJob]]
) -> None:
    jobs = [make(arguments=MARK) for make in makes]
    error = lost(far_store, proxy, enqueue(far_store.sql, jobs))
    assert error.applied == "unknown"
    assert count(database, "job") == len(jobs)  # it had been stored
    before = counts(database)
    far_store.enqueue(*jobs, is_repeated=True)
    assert counts(database) == before


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("make", [job, limited])
def test_a_settle_whose_reply_was_lost_reports_repeated_the_next_time(
    far_store: Store, proxy: Proxy, make: Callable[[], NewJob]
) -> None:
    new = make()
    (claim,) = far_store.claimed(new)
    error = lost(far_store, proxy, settle(far_store.sql, [Finished(claim, MARK)], process_name="w"))
    assert error.applied == "unknown"
    assert far_store.status(new) == ["finished"]
    assert far_store.settle(Finished(claim)).verdicts == {claim.claim_id: Verdict.REPEATED}


@pytest.mark.only_on("postgres", "mariadb")
def test_a_transaction_whose_connection_was_lost_before_its_commit_has_applied_nothing(
    database: str, far_store: Store, proxy: Proxy
) -> None:
    proxy.lose_answer(IS_MARKED)
    with pytest.raises(StoreUnavailable) as caught:
        far_store.enqueue(limited(arguments=MARK))
    assert proxy.has_lost.is_set()
    assert caught.value.applied == "no"
    connections[far_store.alias].close()
    assert count(database, "job") == 0


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
async def test_a_connection_that_is_given_up_while_it_opens_has_left_its_thread(database: str) -> None:
    before = set(threading.enumerate())
    driver = open_async(database)
    with CancelScope() as scope:
        scope.cancel()
        await driver.run(Operation("ask", partial(select_one, driver), transaction=False))
    # It would report to the loop, which its owner may have closed by then.
    assert set(threading.enumerate()) <= before
    await driver.close()


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
async def test_a_connection_that_is_given_up_while_it_opens_is_closed(database: str) -> None:
    gc.collect()
    driver = open_async(database)
    # From Python 3.13 on, one that was not closed says so when it is collected.
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", ResourceWarning)
        with CancelScope() as scope:
            scope.cancel()
            await driver.run(Operation("ask", partial(select_one, driver), transaction=False))
        await driver.close()
        del driver
        gc.collect()
    assert [str(warning.message) for warning in raised] == []


@pytest.mark.only_on("sqlite")
def test_a_call_that_outlasts_its_event_loop_does_not_end_its_thread(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, inside = threading.Event(), threading.Event()
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    before = set(threading.enumerate())

    def waits() -> Flow[None]:
        inside.set()
        gate.wait(30)
        yield from ()

    async def leave() -> None:
        driver = open_async(database)
        task = asyncio.create_task(driver.run(Operation("wait", waits, transaction=False)))
        await asyncio.to_thread(inside.wait, 30)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    gate.set()
    # The call was cancelled, so its connection is closed as soon as it ends.
    wait_until(lambda: set(threading.enumerate()) <= before, "the connection's thread ends")
    assert not failed
