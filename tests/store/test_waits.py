"""Nobody waits for a transaction that is still open, whatever it has enqueued or claimed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from steady_queue.store.burial import release
from steady_queue.store.hurry import run_now
from steady_queue.store.outcome import Finished
from tests.machine.sessions import Session, hurry
from tests.support.jobs import choosy, failed, job, later, limited
from tests.support.stores import SyncStore

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.only_on("postgres", "mariadb")  # SQLite has one writer


@pytest.fixture
def store(database: str) -> SyncStore:
    hurry(database)
    return SyncStore(database)


@contextmanager
def others(alias: str) -> Iterator[None]:
    """Somebody has enqueued a job of each kind and claimed another, and has not committed."""
    SyncStore(alias).enqueue(job(queue_name="theirs"))
    session = Session(alias)
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
    refused = [choosy(), choosy()]
    with others(store.alias):
        assert store.enqueue(*refused).discarded == {one.id for one in refused}


def test_a_settle_does_not_wait(store: SyncStore) -> None:
    claims = store.claimed(job(), limited("a"), limited("b"))
    with others(store.alias):
        settled = store.settle(*(Finished(claim) for claim in claims))
    assert {verdict.value for verdict in settled.verdicts.values()} == {"applied"}


def test_claims_that_are_given_back_do_not_wait(store: SyncStore) -> None:
    claims = store.claimed(job(), job())
    with others(store.alias):
        assert store.run(release(store.sql, {claim.claim_id: claim.job_id for claim in claims}, "worker")) == 2


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
