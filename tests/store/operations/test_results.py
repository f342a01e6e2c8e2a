"""Results: jobs read back with their states."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from steady_queue.store.job import JobRecord, Status
from steady_queue.store.operations.results import find_jobs
from steady_queue.store.outcome import Finished, Released
from tests.support.store.jobs import failed, job, later, limited, new_job_id

if TYPE_CHECKING:
    from tests.support.store.stores import Store


def test_the_status_follows_the_job_through_its_life(store: Store) -> None:
    holder, new, worker = limited(), limited(), store.worker()
    store.enqueue(holder)
    store.enqueue(new)
    seen = store.status(new)
    store.discard(holder)
    seen += store.status(new)
    (claim,) = store.claim(worker)
    seen += store.status(new)
    store.settle(Released(claim))
    seen += store.status(new)
    (claim,) = store.claim(worker)
    store.settle(failed(claim))
    seen += store.status(new)
    store.retry(new)
    (claim,) = store.claim(worker)
    store.settle(Finished(claim))
    seen += store.status(new)
    assert seen == ["blocked", "ready", "claimed", "ready", "failed", "finished"]


def test_a_scheduled_job_says_so(store: Store) -> None:
    new = job(scheduled_at=later())
    store.enqueue(new)
    (record,) = store.find(new)
    assert (record.status, record.scheduled_at) == (Status.SCHEDULED, new.scheduled_at)


def test_a_new_job_is_read_back_with_all_that_is_known_of_it(store: Store) -> None:
    new = limited("k", queue_name="mail", priority=-3, arguments="[1]", headers="{}")
    store.enqueue(new)
    assert store.find(new) == [
        JobRecord(
            id=new.id,
            status=Status.READY,
            queue_name="mail",
            task_path=new.task_path,
            arguments="[1]",
            priority=-3,
            lane=new.lane,
            backend="default",
            enqueued_at=new.enqueued_at,
            scheduled_at=None,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            failed_at=None,
            claimed_at=None,
            claimed_by=None,
            attempts=0,
            worker_ids=None,
            errors=None,
            return_value=None,
            concurrency_key="k",
            headers="{}",
        )
    ]


def test_a_running_job_names_its_process_and_when_it_was_claimed(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new, process_id=store.worker("host-1-worker"))
    (record,) = store.find(new)
    assert (record.claimed_by, record.claimed_at) == ("host-1-worker", claim.claimed_at)
    assert (record.started_at, record.attempts) == (None, 0)


def test_a_running_job_whose_process_is_gone_is_still_running(store: Store) -> None:
    new, worker = job(), store.worker()
    store.claimed(new, process_id=worker)
    store.ask("DELETE FROM steady_queue_process WHERE id = ?", worker)
    (record,) = store.find(new)
    assert (record.status, record.claimed_by) == (Status.CLAIMED, None)


def test_a_finished_job_has_its_value_and_its_times(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Finished(claim, "[1]"), process_name="a")
    (record,) = store.find(new)
    assert (record.status, record.return_value, record.worker_ids) == (Status.FINISHED, "[1]", "a")
    assert record.started_at == record.last_attempted_at == claim.claimed_at
    assert record.finished_at is not None
    assert record.finished_at >= claim.claimed_at
    assert (record.failed_at, record.claimed_at, record.attempts) == (None, None, 1)


def test_a_failed_job_has_its_error_and_when_it_failed(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(failed(claim, "no"))
    (record,) = store.find(new)
    assert record.errors is not None
    assert record.failed_at is not None
    assert (record.status, record.finished_at) == (Status.FAILED, None)
    assert record.failed_at >= claim.claimed_at
    assert "no" in record.errors


def test_every_instant_is_aware(store: Store) -> None:
    new = job(scheduled_at=later(hours=-1))
    (claim,) = store.claimed(new)
    store.settle(failed(claim))
    (record,) = store.find(new)
    moments = [getattr(record, name) for name in JobRecord._fields if name.endswith("_at")]
    assert [moment.utcoffset().total_seconds() for moment in moments if moment is not None] == [0.0] * 5


def test_jobs_come_in_the_order_asked_for(store: Store) -> None:
    jobs = [job() for _ in range(20)]
    store.enqueue(*jobs)
    random.Random(1).shuffle(jobs)
    assert [record.id for record in store.find(*jobs)] == [new.id for new in jobs]


def test_jobs_that_do_not_exist_are_left_out(store: Store) -> None:
    one, two = job(), job()
    store.enqueue(one, two)
    ids = [new_job_id(), two.id, new_job_id(), one.id]
    assert [record.id for record in store.run(find_jobs(store.sql, ids))] == [two.id, one.id]


def test_jobs_that_do_not_exist_are_not_returned(store: Store) -> None:
    assert store.find() == []
    assert store.find(job()) == []


def test_thousands_are_read_at_once(store: Store) -> None:
    jobs = [job() for _ in range(2_000)]
    store.enqueue(*jobs)
    assert [record.id for record in store.find(*jobs)] == [new.id for new in jobs]
