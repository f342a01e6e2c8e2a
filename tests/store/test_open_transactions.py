"""No operation waits for an open transaction that has enqueued or claimed jobs."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from django.db import transaction

from steady_queue.store.operations.actions.job_actions import discard, run_now
from steady_queue.store.operations.enqueue import admit, enqueue
from steady_queue.store.operations.processes.prune import release_claims
from steady_queue.store.operations.promote import lock_id
from steady_queue.store.outcome import Finished
from steady_queue.store.sql.mysql import IDLE_TRANSACTION_SECONDS
from steady_queue.store.statement import Operation
from tests.support.databases.aliases import extra_database, twin_settings
from tests.support.databases.open_transactions import OpenTransaction, set_lock_timeout
from tests.support.databases.tables import counts, query
from tests.support.store.jobs import discarding, failed, job, later, limited
from tests.support.store.statements import statements
from tests.support.store.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from steady_queue.store.job import NewJob
    from steady_queue.store.statement import Flow

pytestmark = pytest.mark.only_on("postgres", "mariadb")  # SQLite has one writer


@pytest.fixture
def store(database: str) -> SyncStore:
    set_lock_timeout(database)
    return SyncStore(database)


@contextmanager
def others(alias: str) -> Iterator[None]:
    """A transaction has enqueued a job of each kind and claimed another, and is still open."""
    SyncStore(alias).enqueue(job(queue_name="theirs"))
    session = OpenTransaction(alias)
    try:
        session.begin()
        theirs = [job(), limited("theirs"), job(scheduled_at=later())]
        session.do(lambda store: store.enqueue(*theirs, promoting=False))
        assert session.do(lambda store: store.claim(store.worker(), queues=["theirs"]))
        yield
    finally:
        session.close()


def test_an_enqueue_whose_jobs_are_discarded_does_not_wait(store: SyncStore) -> None:
    store.enqueue(limited())
    refused = [discarding(), discarding()]
    with others(store.alias):
        assert store.enqueue(*refused).discarded == {one.id for one in refused}


def test_a_settle_does_not_wait(store: SyncStore) -> None:
    claims = store.claimed(job(), limited("a"), limited("b"))
    with others(store.alias):
        settled = store.settle(*(Finished(claim) for claim in claims))
    assert {verdict.value for verdict in settled.verdicts.values()} == {"applied"}


def test_claims_that_are_released_do_not_wait(store: SyncStore) -> None:
    claims = store.claimed(job(), job())
    with others(store.alias):
        given = {claim.claim_id: claim.job_id for claim in claims}
        assert store.run(release_claims(store.sql, given, "worker")).total == 2


def test_retries_do_not_wait(store: SyncStore) -> None:
    jobs = [job(), limited("a"), limited("b")]
    store.settle(*(failed(claim) for claim in store.claimed(*jobs)))
    with others(store.alias):
        assert len(store.retry(*jobs)) == 3


def test_discards_do_not_wait(store: SyncStore) -> None:
    jobs = [
        job(),
        job(),
        limited("a"),
        limited("a"),
        limited("a"),
        job(scheduled_at=later()),
        job(scheduled_at=later()),
    ]
    store.enqueue(*jobs)
    with others(store.alias):
        assert len(store.discard(*jobs)) == len(jobs)


def test_jobs_that_are_run_now_do_not_wait(store: SyncStore) -> None:
    running = limited("a")
    waiting = [limited("a"), limited("a"), job(scheduled_at=later()), job(scheduled_at=later())]
    store.enqueue(running, *waiting)
    with others(store.alias):
        assert len(store.run(run_now(store.sql, [one.id for one in waiting])).ids) == 4


def test_discarding_refused_jobs_does_not_wait_for_a_job_that_is_locked(store: SyncStore) -> None:
    running, refused = limited(), discarding()
    store.enqueue(running)
    store.enqueue(refused, promoting=False)
    session = OpenTransaction(store.alias)
    try:
        session.begin()
        session.do(lambda theirs: theirs.run(discard(theirs.sql, [refused.id], owns_transaction=False)))
        assert store.run(admit(store.sql, [refused])) == frozenset()
        session.end(commit=True)
    finally:
        session.close()
    assert counts(store.alias) == {"ready": 1}


@pytest.mark.only_on("mariadb")
@pytest.mark.parametrize("make", [job, limited, partial(job, scheduled_at=later())], ids=["ready", "limited", "later"])
def test_enqueues_do_not_wait_for_an_action_in_a_repeatable_read(store: SyncStore, make: Callable[[], NewJob]) -> None:
    one = job()
    store.enqueue(one)
    settings = twin_settings(store.alias, options={"isolation_level": "repeatable read"})
    with extra_database(f"{store.alias}_repeatable", settings) as alias, transaction.atomic(using=alias):
        theirs = SyncStore(alias)
        assert theirs.run(discard(theirs.sql, [one.id], owns_transaction=False)).ids == [one.id]
        store.enqueue(make())


@pytest.mark.only_on("mariadb")
def test_a_transaction_that_holds_keys_on_djangos_connection_has_an_idle_timeout(store: SyncStore) -> None:
    """MariaDB ends a frozen holder, as PostgreSQL does; afterwards the project's own setting holds again."""

    def idle_limit() -> int:
        ((seconds,),) = store.ask("SELECT @@SESSION.idle_transaction_timeout", returns=".")
        return int(seconds)

    def holding() -> Flow[int]:
        yield from store.sql.lock_keys([lock_id("key")])
        ((seconds,),) = yield store.sql.statement("SELECT @@SESSION.idle_transaction_timeout", returns=".")
        return int(seconds)

    for own, held in ((0, IDLE_TRANSACTION_SECONDS), (3, 3), (100, IDLE_TRANSACTION_SECONDS)):
        query(store.alias, f"SET SESSION idle_transaction_timeout = {own}")
        assert store.run(Operation("hold", holding)) == held
        assert idle_limit() == own
    _, said = statements(store, enqueue(store.sql, [job()]))
    assert not any(statement.holds_keys for statement in said)
