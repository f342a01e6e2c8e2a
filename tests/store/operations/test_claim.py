"""Claim: ready jobs become the property of one process."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import connections, transaction

from steady_queue.db.aliases import django_driver
from steady_queue.store.job import Claim, Lane
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.processes.registration import deregister, heartbeat
from steady_queue.store.outcome import Finished, Released, Retried, report
from steady_queue.store.statement import Operation, drive
from tests.support.databases.tables import counts, query, row
from tests.support.store.jobs import failed, job, later, limited
from tests.support.store.rows import ids_of_claims, ids_of_jobs, pause
from tests.support.store.statements import only
from tests.support.threads import held, together

if TYPE_CHECKING:
    from steady_queue.store.statement import Row, Statement
    from tests.support.store.stores import Store


# -- what a claim is --------------------------------------------------------------------------------------------------


def test_a_claim_carries_everything_that_running_the_job_needs(store: Store) -> None:
    new = limited("k", 3, queue_name="mail", arguments='{"a": 1}', priority=7, headers="{}", backend="other")
    store.enqueue(new)
    before = store.now()
    (got,) = store.claim(store.worker())
    assert before <= got.claimed_at <= store.now()
    assert got == Claim(
        job_id=new.id,
        claim_id=got.claim_id,
        claimed_at=got.claimed_at,
        task_path=new.task_path,
        arguments=new.arguments,
        queue_name="mail",
        priority=7,
        lane=Lane.ASYNC,
        backend="other",
        attempts=0,
        retries=0,
        enqueued_at=new.enqueued_at,
        expires_at=None,
        headers="{}",
        concurrency_key="k",
        concurrency_limit=3,
        scheduled_at=None,
    )


def test_a_claim_says_for_how_long_the_job_had_been_due_before_its_first_attempt(store: Store) -> None:
    now, ago = store.now(), timedelta(seconds=100)
    jobs = [
        job(enqueued_at=now - ago),
        job(enqueued_at=now - 9 * ago, scheduled_at=now - ago),
        job(enqueued_at=now + ago),  # by a clock that is ahead
    ]
    claims = store.claimed(*jobs)
    waited = [(claim.claimed_at - now + ago).total_seconds() for claim in claims[:2]]
    assert [claim.waited_seconds for claim in claims] == [*(pytest.approx(seconds, abs=0.01) for seconds in waited), 0]
    assert waited[0] >= 100
    store.settle(*[Retried(claim, report(ValueError, "again"), 0.0) for claim in claims])
    query(store.alias, "UPDATE steady_queue_scheduledexecution SET scheduled_at = '2020-01-01 00:00:00'")
    store.run(dispatch(store.sql, 10))
    assert [claim.waited_seconds for claim in store.claim(store.worker(), 10)] == [None, None, None]


def test_a_claimed_row_carries_the_process_and_the_ready_row_is_gone(store: Store) -> None:
    new, worker = job(), store.worker()
    store.enqueue(new)
    (got,) = store.claim(worker)
    assert row(store.alias, "ClaimedExecution", new.id) == {
        "job_id": new.id,
        "claim_id": got.claim_id,
        "process_id": worker,
        "claimed_at": got.claimed_at,
    }
    assert counts(store.alias) == {"claimed": 1}


def test_claiming_writes_nothing_into_the_job(store: Store) -> None:
    new = job()
    store.enqueue(new)
    before = row(store.alias, "Job", new.id, "id")
    store.claim(store.worker())
    assert row(store.alias, "Job", new.id, "id") == before


def test_claim_ids_are_new_for_every_claim(store: Store) -> None:
    jobs, worker = [job() for _ in range(20)], store.worker()
    store.enqueue(*jobs)
    first = store.claim(worker, 20)
    store.settle(*map(Released, first))
    second = store.claim(worker, 20)
    assert len({got.claim_id for got in [*first, *second]}) == 40


def test_a_second_attempt_knows_of_the_first(store: Store) -> None:
    new, worker = job(), store.worker()
    (first,) = store.claimed(new, process_id=worker)
    store.settle(failed(first), process_name="name")
    store.retry(new)
    (second,) = store.claim(worker)
    assert second.attempts == 1
    assert (second.started_at, second.worker_ids) == (first.claimed_at, "name")


# -- how many ---------------------------------------------------------------------------------------------------------


def test_no_more_is_claimed_than_asked_for(store: Store) -> None:
    store.enqueue(*[job() for _ in range(5)])
    worker = store.worker()
    assert len(store.claim(worker, 2)) == 2
    assert counts(store.alias) == {"ready": 3, "claimed": 2}
    assert len(store.claim(worker, 100)) == 3


@pytest.mark.parametrize("limit", [0, -1])
def test_a_claim_for_nothing_takes_nothing(store: Store, limit: int) -> None:
    store.enqueue(job())
    assert store.claim(store.worker(), limit) == []
    assert counts(store.alias) == {"ready": 1}


def test_nothing_is_claimed_from_an_empty_database(store: Store) -> None:
    assert store.claim(store.worker(), 10) == []
    assert store.claim(store.worker(), 10, queues=["a", "b"]) == []


def test_only_ready_jobs_are_claimed(store: Store) -> None:
    holder, waiting = limited(), limited()
    store.enqueue(holder, waiting, job(scheduled_at=later()))
    assert ids_of_claims(store.claim(store.worker(), 10)) == [holder.id]


def test_a_process_without_a_row_claims_nothing(store: Store) -> None:
    store.enqueue(job())
    assert store.claim(uuid4(), 10) == []
    assert store.claim(uuid4(), 10, queues=["default"]) == []
    assert counts(store.alias) == {"ready": 1}


def test_a_process_that_was_deregistered_claims_nothing(store: Store) -> None:
    worker = store.worker()
    store.enqueue(job())
    store.run(deregister(store.sql, worker))
    assert store.claim(worker) == []


# -- others -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queues", [None, ["a", "b"]])
def test_several_claimers_never_take_the_same_job(store: Store, queues: list[str] | None) -> None:
    jobs = [job(queue_name="ab"[n % 2], priority=n % 3) for n in range(120)]
    store.enqueue(*jobs)

    def take_all() -> list[Claim]:
        worker = store.worker()
        taken: list[Claim] = []
        while got := store.claim(worker, 3, queues=queues):
            taken.extend(got)
        return taken

    taken = [got for claims in together(*[take_all] * 4) for got in claims]
    assert sorted(ids_of_claims(taken)) == ids_of_jobs(jobs)
    assert counts(store.alias) == {"claimed": 120}


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("queues", [None, ["a", "b"]])
def test_jobs_that_an_open_transaction_holds_are_passed_over(store: Store, queues: list[str] | None) -> None:
    jobs = [job(queue_name=name) for name in "aabb"]
    store.enqueue(*jobs)
    lock = "SELECT 1 FROM steady_queue_readyexecution WHERE job_id = %s FOR UPDATE"
    with held(store.alias, (lock, [jobs[0].id.hex]), (lock, [jobs[2].id.hex])):
        assert ids_of_claims(store.claim(store.worker(), 10, queues=queues)) == ids_of_jobs([jobs[1], jobs[3]])


@pytest.mark.only_on("postgres", "mariadb")
def test_a_job_whose_enqueueing_transaction_is_open_is_passed_over(store: Store) -> None:
    new, hidden = job(priority=-1), job(priority=5)
    store.enqueue(new)
    insert = "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (%s, 'default', 0, 5)"
    with held(store.alias, (insert, [hidden.id.hex])):
        assert ids_of_claims(store.claim(store.worker(), 10)) == [new.id]


@pytest.mark.only_on("postgres", "mariadb")
@pytest.mark.parametrize("queues", [None, ["default"]])
def test_an_open_heartbeat_or_pause_neither_delays_nor_hides_jobs(store: Store, queues: list[str] | None) -> None:
    store.enqueue(job(), job())
    worker = store.worker()
    pause(store, "elsewhere")
    beat = ("UPDATE steady_queue_process SET last_heartbeat_at = last_heartbeat_at + INTERVAL '1' SECOND", ())
    unpause = ("DELETE FROM steady_queue_pause", ())
    with held(store.alias, beat, unpause):
        assert len(store.claim(worker, 10, queues=queues)) == 2


@pytest.mark.only_on("postgres", "mariadb")
def test_a_claim_blocks_neither_heartbeats_nor_pauses(store: Store) -> None:
    worker = store.worker()
    store.enqueue(job())
    driver = django_driver(store.alias)
    with transaction.atomic(using=store.alias):
        assert len(driver.run(claim_from_all(driver.sql, ClaimRequest(worker, Lane.ASYNC, 10))).claims) == 1

        def beat_and_pause() -> bool:
            with connections[store.alias].cursor() as cursor:
                no_waiting = {"postgresql": "lock_timeout = '1s'", "mysql": "innodb_lock_wait_timeout = 1"}
                cursor.execute(f"SET {no_waiting[connections[store.alias].vendor]}")
            pause(store, "default")
            return driver.run(heartbeat(driver.sql, worker)).is_known

        assert together(beat_and_pause) == [True]


# -- statements -------------------------------------------------------------------------------------------------------


def test_a_claim_issues_exactly_the_planned_statements(store: Store) -> None:
    jobs = [job(queue_name=name) for name in "aabb"]
    store.enqueue(*jobs)
    at_once = store.sql.single_statements is not None
    nothing = statements(store, ClaimRequest(store.worker(), Lane.THREAD, 2, ["a", "b"]))
    enough = statements(store, ClaimRequest(store.worker(), Lane.ASYNC, 2, ["a", "b", "c"]))
    assert len(nothing) == (1 if at_once else 2)
    # Found in the first queue: the others are not looked at.
    assert [text.split()[0] for text in enough] == (["WITH"] if at_once else ["SELECT", "DELETE", "INSERT", "SELECT"])


def statements(store: Store, wanted: ClaimRequest) -> list[str]:
    """The texts of the statements of a claim that is really made."""
    said: list[str] = []
    operation = claim(store.sql, wanted)

    def execute(statement: Statement) -> list[Row]:
        said.append(statement.text)
        return store.run(Operation("step", lambda: only(statement), transaction=False))

    drive(operation.flow(), execute)
    return said


def test_a_claim_that_is_settled_leaves_room_for_the_next(store: Store) -> None:
    first, second = job(), job()
    store.enqueue(first, second)
    worker = store.worker()
    (got,) = store.claim(worker)
    store.settle(Finished(got))
    assert ids_of_claims(store.claim(worker)) == [second.id]
