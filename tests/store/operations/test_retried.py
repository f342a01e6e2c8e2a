"""Jobs that are scheduled for another attempt: what a settle writes, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steady_queue.store.job import Lane
from steady_queue.store.operations.claim import ClaimRequest, claim
from steady_queue.store.operations.dispatch import dispatch
from steady_queue.store.operations.settle import settle
from steady_queue.store.outcome import MAX_ERRORS, MAX_WORKER_IDS_CHARACTERS, Finished
from tests.support.databases.tables import query
from tests.support.store.jobs import failed, job, limited, retried
from tests.support.store.rows import job_row
from tests.support.store.statements import statements

if TYPE_CHECKING:
    from steady_queue.store.job import NewJob
    from tests.support.store.stores import Store


def _count(store: Store, new: NewJob, *, is_retried: bool) -> int:
    (claimed,) = store.claimed(new)
    outcome = retried(claimed) if is_retried else failed(claimed)
    _, made = statements(store, settle(store.sql, [outcome], process_name="worker"))
    return len(made)


def test_a_retry_is_settled_with_no_more_statements_than_a_failure(store: Store) -> None:
    assert _count(store, job(), is_retried=True) <= _count(store, job(), is_retried=False)
    assert _count(store, limited("a", 1), is_retried=True) <= _count(store, limited("b", 1), is_retried=False)


def test_the_slot_of_a_retried_job_is_given_to_the_next_one_in_the_same_settle(store: Store) -> None:
    first, second = limited("key", 1), limited("key", 1)
    (claimed,) = store.claimed(first)
    store.enqueue(second)
    assert store.status(first, second) == ["claimed", "blocked"]
    assert store.settle(retried(claimed)).promoted == 1
    assert store.status(first, second) == ["scheduled", "ready"]


def test_a_retried_job_is_counted_and_due_after_its_delay(store: Store) -> None:
    new = job()
    (claimed,) = store.claimed(new)
    before = store.now()
    store.settle(retried(claimed, delay_seconds=90))
    row = job_row(store, new)
    assert (row["attempts"], row["retries"], row["finished_at"]) == (1, 1, None)
    ((due_at,),) = store.ask("SELECT scheduled_at FROM steady_queue_scheduledexecution", returns="t")
    assert 89 < (due_at - before).total_seconds() < 120


def test_a_retry_that_is_settled_twice_is_counted_once(store: Store) -> None:
    new = job()
    (claimed,) = store.claimed(new)
    store.settle(retried(claimed))
    store.settle(retried(claimed))
    assert (job_row(store, new)["attempts"], job_row(store, new)["retries"]) == (1, 1)


def test_the_history_of_a_job_is_bounded(store: Store) -> None:
    new = job()
    store.enqueue(new)
    process_id, name = store.worker(), "w" * 50
    for _ in range(MAX_WORKER_IDS_CHARACTERS // len(name) + 5):
        (claimed,) = store.run(claim(store.sql, ClaimRequest(process_id, Lane(new.lane), 1, [new.queue_name])))
        store.run(settle(store.sql, [retried(claimed)], process_name=name))
        query(store.alias, "UPDATE steady_queue_scheduledexecution SET scheduled_at = '2020-01-01 00:00:00'")
        store.run(dispatch(store.sql, 1))
    (claimed,) = store.claim(process_id)
    assert claimed.errors is not None
    assert claimed.worker_ids is not None
    assert len(claimed.errors.split("\n")) == MAX_ERRORS
    assert set(claimed.worker_ids.split("\n")) == {name}
    assert MAX_WORKER_IDS_CHARACTERS - 100 < len(claimed.worker_ids) < MAX_WORKER_IDS_CHARACTERS + 100
    store.settle(Finished(claimed))
