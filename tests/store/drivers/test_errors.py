"""Errors: what each refusal and each conflict of a database is reported as."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections, transaction

from steady_queue.db.aliases import open_async
from steady_queue.errors import StoreBug, StoreConflict, StoreDataError
from steady_queue.store.drivers.pool import MAX_TRIES
from steady_queue.store.job import Lane
from steady_queue.store.statement import Operation, Statement
from tests.store.drivers.helpers import asking, select_one, waiting
from tests.support.databases.tables import count, counts, query
from tests.support.servers import wait_until
from tests.support.store.jobs import job, later, limited
from tests.support.store.statements import only
from tests.support.store.stores import SyncStore
from tests.support.threads import WAIT_TIMEOUT_SECONDS, held, while_in_thread

if TYPE_CHECKING:
    from steady_queue.store.statement import Flow
    from tests.support.store.stores import Store


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
    assert await driver.run(Operation("ask", partial(select_one, driver), transaction=False)) == [(1,)]
    await driver.close()


@pytest.mark.only_on("postgres", "mariadb")
def test_a_number_that_does_not_fit_is_a_data_error(store: Store) -> None:
    for number in (2**15, 2**63, 2**70):
        with pytest.raises(StoreDataError):
            store.enqueue(job(), job(priority=number, lane=Lane.ASYNC))
    assert count(store.alias, "job") == 0


@pytest.mark.only_on("postgres")
@pytest.mark.parametrize("in_transaction", [True, False])
def test_a_value_that_cannot_be_sent_leaves_no_table_locked(store: Store, in_transaction: bool) -> None:
    change = "UPDATE steady_queue_job SET priority = ?"
    with pytest.raises(StoreDataError):
        store.run(asking(store, change, 2**70, returns="", in_transaction=in_transaction))
    locked = "SELECT relation::regclass::text FROM pg_locks WHERE pid <> pg_backend_pid() AND relation IS NOT NULL"
    assert query(store.alias, locked) == []


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
        return (yield store.sql.statement(f"{text} NOWAIT", worker, returns="u"))

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
        return (yield store.sql.statement(f"{text} NOWAIT", worker, returns="u"))

    with held(database, (text.replace("?", "%s"), [worker.hex])), transaction.atomic(using=database):
        store.enqueue(job())
        with pytest.raises(StoreConflict):
            store.run(Operation("conflict", flow))
        assert connections[database].needs_rollback
    assert len(starts) == 1
    assert count(database, "job") == 0


@pytest.mark.only_on("postgres", "mariadb")
def test_the_victim_of_a_deadlock_is_retried_and_succeeds(store: Store) -> None:
    one, two = store.worker("one"), store.worker("two")
    starts: list[int] = []
    update = "UPDATE steady_queue_process SET name = ? WHERE id = ?"

    def flow() -> Flow[None]:
        starts.append(1)
        yield store.sql.statement(update, "ours", two)
        yield store.sql.statement(update, "ours", one)

    has_one = threading.Event()

    def other() -> None:
        with transaction.atomic(using=store.alias):
            # The transaction that has done less, or waited longer, is the victim: here the one under test.
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
