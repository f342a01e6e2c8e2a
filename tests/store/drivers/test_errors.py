"""Errors: what each code means, and what each mishap really comes to."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import warnings
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from anyio import CancelScope
from django.db import connections, transaction

from steady_queue.db.aliases import open_async
from steady_queue.errors import StoreBug, StoreConflict, StoreDataError, StoreError, StoreUnavailable
from steady_queue.store.drivers.error_codes import mysql_error, postgres_error, sqlite_error
from steady_queue.store.drivers.pool import MAX_TRIES
from steady_queue.store.job import Lane
from steady_queue.store.operations.enqueue import enqueue
from steady_queue.store.operations.processes import deregister, heartbeat
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import Finished, Verdict
from steady_queue.store.statement import Operation, Statement, only
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.tables import count, counts, query
from tests.support.servers import wait_until
from tests.support.servers.host import free_port
from tests.support.servers.proxy import COMMIT, Proxy
from tests.support.store.jobs import job, later, limited
from tests.support.store.stores import SyncStore, async_store
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from anyio.from_thread import BlockingPortal

    from steady_queue.store.drivers.pool import AsyncDriver
    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Flow
    from tests.support.servers import MariaDB, Postgres
    from tests.support.store.stores import Store

# -- by code ----------------------------------------------------------------------------------------------------------

POSTGRES: dict[type[StoreError], list[str | None]] = {
    StoreUnavailable: [
        None,  # no answer at all
        *("08000", "08001", "08003", "08006", "08P01"),  # connections
        *("53000", "53100", "53200", "53300", "53400"),  # disk full, out of memory, too many connections
        *("57P01", "57P02", "57P03", "57P05", "57014"),  # shutdown, crash, starting, idle session, timeout
        *("58000", "58030", "25006", "25P03"),  # system, I/O, read-only standby, idle in transaction
    ],
    StoreConflict: ["40001", "40P01", "55P03"],
    StoreDataError: ["22001", "22003", "22021", "22P02", "22P05", "23502", "23505", "23514"],
    StoreBug: ["42P01", "42703", "42601", "42501", "28P01", "3D000", "0A000", "25P02", "XX000", "P0001"],
}
MYSQL: dict[type[StoreError], list[int | None]] = {
    StoreUnavailable: [
        *(None, 0),
        *(2002, 2003, 2006, 2013, 2055),  # refused, gone, lost
        *(1040, 1203, 1226),  # too many connections
        *(1053, 1927, 1317, 1158, 1159, 1160, 1161),  # shutdown, killed, interrupted, packets lost
        *(1290, 1792, 1836, 1047),  # read-only, not ready (Galera)
        *(1021, 1114, 1030),  # disk full, table full, I/O
        *(1969, 3024, 4031),  # statement and idle time-outs
    ],
    StoreConflict: [1205, 1213, 1020, 3572],
    StoreDataError: [1048, 1062, 1153, 1264, 1265, 1292, 1366, 1406],
    StoreBug: [1045, 1049, 1054, 1064, 1142, 1146, 1267, 1305],
}
SQLITE: dict[type[StoreError], list[int | None]] = {
    StoreUnavailable: [5, 6, 7, 8, 10, 13, 14, 5 | 2 << 8, 8 | 4 << 8, 10 | 12 << 8],  # extended codes too
    StoreConflict: [17],
    StoreDataError: [18, 19, 20, 25, 19 | 8 << 8, 19 | 6 << 8],
    StoreBug: [None, 1, 11, 21, 26],
}


def rows(table: dict[type[StoreError], list[Any]]) -> list[tuple[Any, type[StoreError]]]:
    return [(code, kind) for kind, codes in table.items() for code in codes]


@pytest.mark.parametrize(("code", "kind"), rows(POSTGRES))
def test_every_sqlstate_has_its_kind(code: str | None, kind: type[StoreError]) -> None:
    assert postgres_error(code) is kind


@pytest.mark.parametrize(("code", "kind"), rows(MYSQL))
def test_every_mysql_number_has_its_kind(code: int | None, kind: type[StoreError]) -> None:
    assert mysql_error(code) is kind


@pytest.mark.parametrize(("code", "kind"), rows(SQLITE))
def test_every_sqlite_code_has_its_kind(code: int | None, kind: type[StoreError]) -> None:
    assert sqlite_error(code) is kind


# -- for real: what the database refuses ------------------------------------------------------------------------------


def asking(store: Store, text: str, *params: Any, returns: str = ".", in_transaction: bool) -> Operation[Any]:
    statement = store.sql.say(text, *params, returns=returns)
    return Operation("ask", lambda: only(statement), transaction=in_transaction)


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_duplicate_is_a_data_error(store: Store, in_transaction: bool) -> None:
    worker = store.worker()
    columns = "id, kind, name, pid, hostname, metadata, started_at, last_heartbeat_at"
    insert = (
        f"INSERT INTO steady_queue_process ({columns}) VALUES (?, '', '', 1, '', '', {store.sql.now}, {store.sql.now})"
    )
    with pytest.raises(StoreDataError) as caught:
        store.run(asking(store, insert, worker, returns="", in_transaction=in_transaction))
    assert caught.value.applied == "no"
    assert caught.value.code in ("23505", "1062", "1555")
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_missing_table_is_a_bug_and_is_shown(store: Store, in_transaction: bool) -> None:
    with pytest.raises(StoreBug, match="steady_queue_nowhere") as caught:
        store.run(asking(store, "SELECT id FROM steady_queue_nowhere", in_transaction=in_transaction))
    assert caught.value.code in ("42P01", "1146", "1")
    assert caught.value.applied == "no"


def test_a_store_works_on_after_every_kind_of_refusal(store: Store) -> None:
    there = job()
    store.enqueue(there)
    for _ in range(3):
        with pytest.raises(StoreDataError):
            store.enqueue(there, limited())
        with pytest.raises(StoreBug):
            store.ask("SELECT id FROM steady_queue_nowhere", returns=".")
    store.enqueue(job(), limited())
    assert counts(store.alias) == {"ready": 3}


def test_a_value_that_the_driver_cannot_send_is_a_data_error(store: Store) -> None:
    lone = "\ud800"
    for new in (job(arguments=lone), limited(lone), job(queue_name=lone, scheduled_at=later())):
        with pytest.raises(StoreDataError) as caught:
            store.enqueue(job(), new)
        assert caught.value.applied == "no"
    assert count(store.alias, "job") == 0


@pytest.mark.anyio
@pytest.mark.only_on("mariadb")
@pytest.mark.parametrize("value", [b"bytes", ["a list"], ("a tuple",), {"a": "dict"}])
@pytest.mark.parametrize("is_many", [True, False])
async def test_a_parameter_that_aiomysql_cannot_encode_is_a_data_error(
    database: str, value: object, is_many: bool
) -> None:
    driver = open_async(database)
    text, params = "INSERT INTO steady_queue_pause (queue_name, created_at) VALUES (%s, now())", [value]
    statement = Statement(text, [params] if is_many else params, many=is_many)
    with pytest.raises(StoreDataError) as caught:
        await driver.run(Operation("insert", lambda: only(statement), transaction=False))
    assert caught.value.applied == "no"
    assert isinstance(caught.value.__cause__, TypeError)
    # Nothing was sent, so the connection can still be used.
    assert await driver.run(Operation("ask", partial(_one, driver), transaction=False)) == [(1,)]
    await driver.close()


@pytest.mark.only_on("postgres", "mariadb")
def test_a_number_that_does_not_fit_is_a_data_error(store: Store) -> None:
    for number in (2**15, 2**63, 2**70):
        with pytest.raises(StoreDataError):
            store.enqueue(job(), job(priority=number, lane=Lane.ASYNC))
    assert count(store.alias, "job") == 0


@pytest.mark.only_on("mariadb", "sqlite")  # PostgreSQL stores no such values
@pytest.mark.parametrize("in_transaction", [True, False])
@pytest.mark.parametrize("kind", ["t", "u", "i"])
def test_a_stored_value_that_cannot_be_read_is_a_data_error(store: Store, kind: str, in_transaction: bool) -> None:
    with pytest.raises(StoreDataError, match="a stored value cannot be read") as caught:
        store.run(asking(store, "SELECT 'yesterday'", returns=kind, in_transaction=in_transaction))
    assert caught.value.applied == "no"
    store.enqueue(job())
    assert counts(store.alias) == {"ready": 1}


@pytest.mark.only_on("sqlite")
def test_a_time_that_cannot_be_written_is_a_data_error(store: Store) -> None:
    too_early = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    with pytest.raises(StoreDataError, match="a value cannot be converted"):
        store.enqueue(job(), job(scheduled_at=too_early))
    assert count(store.alias, "job") == 0


# -- for real: conflicts ----------------------------------------------------------------------------------------------


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_conflict_is_tried_again_a_few_times_and_then_reported(store: Store, in_transaction: bool) -> None:
    worker, starts = store.worker(), []
    text = "SELECT id FROM steady_queue_process WHERE id = ? FOR UPDATE"

    def flow() -> Flow[Any]:
        starts.append(1)
        return (yield store.sql.say(f"{text} NOWAIT", worker, returns="u"))

    with (
        held(store.alias, (text.replace("?", "%s"), [worker.hex])),
        pytest.raises(StoreConflict) as caught,
    ):
        store.run(Operation("conflict", flow, transaction=in_transaction))
    assert len(starts) == MAX_TRIES
    assert caught.value.code in ("55P03", "1205")
    assert caught.value.applied == "no"


@pytest.mark.only_on("postgres", "mariadb")
def test_a_conflict_inside_the_callers_transaction_is_not_tried_again_and_nothing_can_be_committed(
    database: str,
) -> None:
    store = SyncStore(database)
    worker, starts = store.worker(), []
    text = "SELECT id FROM steady_queue_process WHERE id = ? FOR UPDATE"

    def flow() -> Flow[Any]:
        starts.append(1)
        return (yield store.sql.say(f"{text} NOWAIT", worker, returns="u"))

    with held(database, (text.replace("?", "%s"), [worker.hex])), transaction.atomic(using=database):
        store.enqueue(job())
        with pytest.raises(StoreConflict):
            store.run(Operation("conflict", flow))
        assert connections[database].needs_rollback
    assert len(starts) == 1
    assert count(database, "job") == 0


@pytest.mark.only_on("postgres", "mariadb")
def test_the_victim_of_a_deadlock_begins_anew_and_succeeds(store: Store) -> None:
    one, two = store.worker("one"), store.worker("two")
    starts: list[int] = []
    update = "UPDATE steady_queue_process SET name = ? WHERE id = ?"

    def flow() -> Flow[None]:
        starts.append(1)
        yield store.sql.say(update, "ours", two)
        yield store.sql.say(update, "ours", one)

    has_one = threading.Event()

    def other() -> None:
        with transaction.atomic(using=store.alias):
            # The one that has done less, or waited longer, is the victim: it shall be ours.
            if connections[store.alias].vendor == "postgresql":
                query(store.alias, "SET LOCAL deadlock_timeout = '30s'")
            store_in_here = SyncStore(store.alias)
            for _ in range(5):
                store_in_here.enqueue(job())
            query(store.alias, update.replace("?", "%s"), "theirs", one.hex)
            has_one.set()
            wait_until(lambda: bool(waiting(store.alias, "UPDATE steady_queue_process", one)), "ours waits")
            query(store.alias, update.replace("?", "%s"), "theirs", two.hex)

    with while_in_thread(other):
        assert has_one.wait(WAIT_TIMEOUT_SECONDS)
        store.run(Operation("two rows", flow))
    assert len(starts) == 2
    assert query(store.alias, "SELECT name FROM steady_queue_process") == [("ours",), ("ours",)]


def waiting(alias: str, statement: str, id_: UUID) -> list[int]:
    """The sessions in which such a statement about this row waits for a lock."""
    if connections[alias].vendor == "postgresql":
        query(alias, "SELECT pg_stat_clear_snapshot()")  # a transaction sees the same activity for ever
        text = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        return [session for (session,) in query(alias, text, f"{statement}%")]
    # The values are part of the text here, and while such a statement is under way it can only be waiting.
    text = "SELECT id FROM information_schema.processlist WHERE info LIKE %s AND id <> connection_id()"
    return [session for (session,) in query(alias, text, f"{statement.split()[0]}%{id_.hex}%")]


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
    assert store.run(heartbeat(store.sql, worker)) is True
    return error


@pytest.mark.only_on("postgres")
def test_a_statement_that_takes_too_long_is_unavailable(store: Store) -> None:
    slow = store.sql.say("SELECT set_config('statement_timeout', '10ms', true)", returns=".")

    def flow() -> Flow[None]:
        yield slow
        yield store.sql.say("SELECT pg_sleep(30)", returns=".")

    with pytest.raises(StoreUnavailable) as caught:
        store.run(Operation("slow", flow))
    assert (caught.value.code, caught.value.applied) == ("57014", "no")


# -- for real: other ways in ------------------------------------------------------------------------------------------


@pytest.fixture(params=["sync", "async"])
def store_at(
    request: pytest.FixtureRequest, database: str, portal: BlockingPortal
) -> Iterator[Callable[[dict[str, Any]], Store]]:
    """A store of the same database that is reached in another way: by these settings."""
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
    # psycopg keeps the code of a refusal to itself.
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

#: By this the proxy knows the request.
MARK = "the answer to this is lost"
IS_MARKED = re.compile(MARK.encode())


@pytest.fixture
def proxy(database: str, servers: dict[str, Postgres | MariaDB]) -> Iterator[Proxy]:
    with Proxy(servers[database]) as proxy:
        yield proxy


@pytest.fixture
def far_store(database: str, proxy: Proxy, store_at: Callable[..., Store]) -> Store:
    """A store behind the proxy, connected, that has said everything once before."""
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
def test_a_settle_whose_answer_was_lost_says_repeated_the_next_time(
    far_store: Store, proxy: Proxy, make: Callable[[], NewJob]
) -> None:
    new = make()
    (claim,) = far_store.claimed(new)
    error = lost(far_store, proxy, settle(far_store.sql, [Finished(claim, MARK)], worker_id="w"))
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
        await driver.run(Operation("ask", partial(_one, driver), transaction=False))
    # It would report to the loop, which its owner may have closed by then.
    assert set(threading.enumerate()) <= before
    await driver.close()


@pytest.mark.anyio
@pytest.mark.only_on("sqlite")
async def test_a_connection_that_is_given_up_while_it_opens_is_closed(database: str) -> None:
    gc.collect()
    driver = open_async(database)
    # From Python 3.13 on, one that was not closed says so when it is collected.
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        with CancelScope() as scope:
            scope.cancel()
            await driver.run(Operation("ask", partial(_one, driver), transaction=False))
        await driver.close()
        del driver
        gc.collect()
    assert [str(warning.message) for warning in told] == []


def _one(driver: AsyncDriver) -> Flow[Any]:
    return (yield driver.sql.say("SELECT 1", returns="."))


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
