"""Settle: the only place that ends a claim."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from steady_queue.errors import StoreDataError
from steady_queue.store.job import Lane
from steady_queue.store.outcome import MAX_ATTEMPTS, ErrorReport, Failed, Finished, Released, Settlement, Verdict
from tests.support.databases.tables import count, counts, row
from tests.support.store.jobs import failed, job, limited
from tests.support.store.rows import all_rows, job_row, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store


# -- finished ---------------------------------------------------------------------------------------------------------


def test_a_finished_job_has_its_value_its_times_and_its_worker(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    before = store.now()
    settlement = store.settle(Finished(claim, '{"a": [1, "é"]}'), process_name="host-1")
    assert settlement == Settlement({claim.claim_id: Verdict.APPLIED}, 0)
    found = job_row(store, new)
    assert before <= found["finished_at"] <= store.now()
    assert (found["started_at"], found["last_attempted_at"]) == (claim.claimed_at, claim.claimed_at)
    assert (found["attempts"], found["worker_ids"], found["last_claim_id"]) == (1, "host-1", claim.claim_id)
    assert (found["return_value"], found["errors"]) == ('{"a": [1, "é"]}', None)
    assert counts(store.alias) == {}


@pytest.mark.parametrize("end", [Finished, failed], ids=["finished", "failed"])
@pytest.mark.parametrize(("before", "after"), [(MAX_ATTEMPTS - 1, MAX_ATTEMPTS), (MAX_ATTEMPTS, MAX_ATTEMPTS)])
def test_attempts_are_counted_as_far_as_the_column_can_count(
    store: Store, end: Callable[[Claim], Outcome], before: int, after: int
) -> None:
    new, other = job(), job()
    claims = store.claimed(new, other)
    store.ask("UPDATE steady_queue_job SET attempts = ?, worker_ids = 'another' WHERE id = ?", before, new.id)
    settlement = store.settle(*map(end, claims))
    assert verdicts(settlement, *claims) == [Verdict.APPLIED] * 2
    assert job_row(store, new)["attempts"] == after
    assert job_row(store, other)["attempts"] == 1


def test_a_job_that_returned_nothing_has_no_value(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Finished(claim))
    assert job_row(store, new)["return_value"] is None


def test_each_job_of_a_batch_gets_its_own_value(store: Store) -> None:
    jobs = [job() for _ in range(5)]
    values = ["1", None, '"1"', "null", "1"]
    claims = store.claimed(*jobs)
    store.settle(*map(Finished, claims, values))
    assert [job_row(store, new)["return_value"] for new in jobs] == values


def test_values_come_back_as_they_went_in(store: Store) -> None:
    texts = ["'; -- \\' \\", '"%s ? $1 %% :a"', '"é 😀"', '"a\\nb"', "", " x "]
    jobs = [job() for _ in texts]
    claims = store.claimed(*jobs)
    store.settle(*map(Finished, claims, texts))
    assert [job_row(store, new)["return_value"] for new in jobs] == texts


def test_what_was_known_of_the_job_stays_as_it_was(store: Store) -> None:
    new = limited("k", 3, queue_name="mail", priority=4, headers="{}", lane=Lane.ASYNC)
    (claim,) = store.claimed(new)
    store.settle(Finished(claim))
    assert {name: job_row(store, new)[name] for name in new._fields} == new._asdict()


# -- not preserved ----------------------------------------------------------------------------------------------------


def test_a_finished_job_that_is_not_to_be_preserved_is_deleted(store: Store) -> None:
    new, other = job(), job()
    claims = store.claimed(new, other)
    assert verdicts(store.settle(Finished(claims[0]), preserve=False), claims[0]) == [Verdict.APPLIED]
    assert store.find(new) == []
    assert store.status(other) == ["claimed"]


def test_a_limited_job_that_is_not_to_be_preserved_is_deleted_with_its_slot(store: Store) -> None:
    new, waiting = limited(), limited()
    (claim,) = store.claimed(new)
    store.enqueue(waiting)
    assert store.settle(Finished(claim), preserve=False).promoted == 1
    assert store.find(new) == []
    assert store.status(waiting) == ["ready"]
    assert count(store.alias, "semaphore") == 1


def test_failed_and_released_jobs_are_kept_although_finished_ones_are_not(store: Store) -> None:
    jobs = [job() for _ in range(3)]
    one, two, three = store.claimed(*jobs)
    store.settle(Finished(one), failed(two), Released(three), preserve=False)
    assert [record.id for record in store.find(*jobs)] == [jobs[1].id, jobs[2].id]
    assert store.status(*jobs[1:]) == ["failed", "ready"]
    assert job_row(store, jobs[1])["attempts"] == 1


# -- failed -----------------------------------------------------------------------------------------------------------


def test_a_failed_job_keeps_class_message_and_traceback(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    error = ErrorReport("shop.errors.Declined", "no 'money' \\ 😀 %s\nat all", "Traceback\n  File …\nDeclined")
    before = store.now()
    assert verdicts(store.settle(Failed(claim, error), process_name="host-1"), claim) == [Verdict.APPLIED]
    kept = row(store.alias, "FailedExecution", new.id)
    assert kept is not None
    assert before <= kept.pop("failed_at") <= store.now()
    assert kept == {"job_id": new.id, "exception_class": error.exception_class, "message": error.message, "kind": 0}
    found = job_row(store, new)
    stored = json.loads(found["errors"])
    assert datetime.fromisoformat(stored.pop("started_at")) == claim.claimed_at
    assert datetime.fromisoformat(stored.pop("ended_at")) >= claim.claimed_at - timedelta(seconds=1)
    assert stored == {
        "exception_class_path": error.exception_class,
        "message": error.message,
        "traceback": error.traceback,
        "attempt": 1,
        "worker_id": "host-1",
    }
    assert found["finished_at"] is None
    assert (found["started_at"], found["last_attempted_at"]) == (claim.claimed_at, claim.claimed_at)
    assert (found["attempts"], found["worker_ids"], found["last_claim_id"]) == (1, "host-1", claim.claim_id)
    assert found["return_value"] is None
    assert counts(store.alias) == {"failed": 1}


def test_a_failure_of_a_job_that_has_a_failed_row_updates_it(store: Store) -> None:
    new, other = job(), job()
    (claim, its) = store.claimed(new, other)
    columns = "job_id, failed_at, exception_class, message"
    insert = f"INSERT INTO steady_queue_failedexecution ({columns}) VALUES (?, {store.sql.now}, ?, ?)"
    store.ask(insert, new.id, "Old", "old")
    assert verdicts(store.settle(failed(claim, "new"), failed(its)), claim, its) == [Verdict.APPLIED] * 2
    kept = row(store.alias, "FailedExecution", new.id)
    assert kept is not None
    assert (kept["exception_class"], kept["message"]) == ("builtins.ValueError", "new")
    assert counts(store.alias) == {"failed": 2}


def test_every_attempt_adds_its_worker_and_its_error(store: Store) -> None:
    new = job()
    (first,) = store.claimed(new)
    store.settle(failed(first, "one"), process_name="a")
    store.retry(new)
    (second,) = store.claim(store.worker())
    store.settle(failed(second, "two"), process_name="b")
    store.retry(new)
    (third,) = store.claim(store.worker())
    store.settle(Finished(third, "3"), process_name="c")
    found = job_row(store, new)
    assert [json.loads(line)["message"] for line in found["errors"].split("\n")] == ["one", "two"]
    assert found["worker_ids"].split("\n") == ["a", "b", "c"]
    assert found["attempts"] == 3
    assert (found["started_at"], found["last_attempted_at"]) == (first.claimed_at, third.claimed_at)
    assert (found["return_value"], found["last_claim_id"]) == ("3", third.claim_id)


def test_each_job_of_a_batch_gets_its_own_error(store: Store) -> None:
    jobs = [job() for _ in range(4)]
    claims = store.claimed(*jobs)
    store.settle(*(failed(claim, f"error {n}") for n, claim in enumerate(claims)))
    for n, new in enumerate(jobs):
        assert json.loads(job_row(store, new)["errors"])["message"] == f"error {n}"
        kept = row(store.alias, "FailedExecution", new.id)
        assert kept is not None
        assert kept["message"] == f"error {n}"


# -- released ---------------------------------------------------------------------------------------------------------


def test_a_released_job_is_ready_again_and_has_spent_no_attempt(store: Store) -> None:
    new = job(queue_name="mail", priority=8)
    (claim,) = store.claimed(new)
    before = job_row(store, new)
    assert verdicts(store.settle(Released(claim)), claim) == [Verdict.APPLIED]
    assert job_row(store, new) == before
    assert row(store.alias, "ReadyExecution", new.id) == {
        "job_id": new.id,
        "queue_name": "mail",
        "lane": Lane.ASYNC,
        "priority": 8,
    }
    assert counts(store.alias) == {"ready": 1}


def test_a_released_limited_job_keeps_its_slot_and_is_not_blocked_again(store: Store) -> None:
    new, waiting = limited(), limited(priority=50)
    (claim,) = store.claimed(new)
    store.enqueue(waiting)
    before = row(store.alias, "Semaphore", new.id)
    assert store.settle(Released(claim)) == Settlement({claim.claim_id: Verdict.APPLIED}, 0)
    assert row(store.alias, "Semaphore", new.id) == before
    assert store.status(new, waiting) == ["ready", "blocked"]


def test_a_released_job_can_be_claimed_and_settled_again(store: Store) -> None:
    new, worker = job(), store.worker()
    (claim,) = store.claimed(new, process_id=worker)
    store.settle(Released(claim))
    (again,) = store.claim(worker)
    assert verdicts(store.settle(Finished(again)), again) == [Verdict.APPLIED]
    assert job_row(store, new)["attempts"] == 1


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_settle_of_no_outcomes_succeeds(store: Store) -> None:
    assert store.settle() == Settlement({}, 0)


@pytest.mark.parametrize("make", [job, lambda: limited(to=50)], ids=["plain", "limited"])
@pytest.mark.parametrize("preserve", [True, False])
def test_a_batch_of_all_kinds_settles_each_as_it_should(
    store: Store, make: Callable[[], NewJob], preserve: bool
) -> None:
    jobs = [make() for _ in range(8)]
    claims = store.claimed(*jobs)
    store.settle(failed(claims[6], "taken"), by_owner=False)
    store.settle(Finished(claims[7], "0"))
    settlement = store.settle(
        Finished(claims[0], '"zero"'),
        failed(claims[1], "one"),
        Released(claims[2]),
        Finished(claims[3]),
        failed(claims[4], "four"),
        Released(claims[5]),
        Finished(claims[6], '"late"'),
        Finished(claims[7], '"again"'),
        preserve=preserve,
    )
    applied, fenced, repeated = Verdict.APPLIED, Verdict.FENCED, Verdict.REPEATED
    assert verdicts(settlement, *claims) == [*[applied] * 6, fenced, repeated]
    assert store.status(jobs[1], jobs[2], jobs[4], jobs[5], jobs[6]) == ["failed", "ready", "failed", "ready", "failed"]
    assert job_row(store, jobs[7])["return_value"] == "0"
    if preserve:
        assert store.status(jobs[0], jobs[3]) == ["finished", "finished"]
        assert [job_row(store, jobs[n])["return_value"] for n in (0, 3)] == ['"zero"', None]
    else:
        assert store.find(jobs[0], jobs[3]) == []
    assert counts(store.alias) == {"failed": 3, "ready": 2}


def test_limited_and_unlimited_jobs_settle_in_one_batch(store: Store) -> None:
    plain, one, two, released = job(), limited("a"), limited("b"), limited("c")
    waiting = [limited("a"), limited("b"), limited("c")]
    claims = store.claimed(plain, one, two, released)
    store.enqueue(*waiting)
    settlement = store.settle(Finished(claims[0]), Finished(claims[1]), failed(claims[2]), Released(claims[3]))
    assert settlement.promoted == 2
    assert store.status(*waiting) == ["ready", "ready", "blocked"]
    assert store.status(plain, one, two, released) == ["finished", "finished", "failed", "ready"]


def test_a_fenced_outcome_frees_no_slot_and_promotes_no_job(store: Store) -> None:
    new, waiting = limited(), limited()
    (claim,) = store.claimed(new)
    store.settle(Released(claim))
    store.enqueue(waiting)
    assert store.settle(Finished(claim)) == Settlement({claim.claim_id: Verdict.FENCED}, 0)
    assert store.status(new, waiting) == ["ready", "blocked"]


def test_a_batch_of_hundreds_is_settled(store: Store) -> None:
    jobs = [job() for _ in range(500)]
    claims = store.claimed(*jobs)
    settlement = store.settle(
        *(Finished(claim, str(n)) if n % 3 else failed(claim, str(n)) for n, claim in enumerate(claims))
    )
    assert set(settlement.verdicts.values()) == {Verdict.APPLIED}
    assert counts(store.alias) == {"failed": 167}
    assert [record.return_value for record in store.find(*jobs)] == [str(n) if n % 3 else None for n in range(500)]


def test_an_outcome_that_cannot_be_stored_leaves_the_whole_batch_unsettled(store: Store) -> None:
    jobs = [job(), limited()]
    claims = store.claimed(*jobs)
    before = all_rows(store)
    with pytest.raises(StoreDataError) as caught:
        store.settle(Finished(claims[0], "1"), Finished(claims[1], '"\ud800"'))
    assert caught.value.applied == "no"
    assert all_rows(store) == before
    assert verdicts(store.settle(*map(Finished, claims)), *claims) == [Verdict.APPLIED] * 2


@pytest.mark.only_on("postgres")  # the others store a NUL
def test_a_nul_in_a_value_is_a_data_error(store: Store) -> None:
    (claim,) = store.claimed(job())
    for end in (Finished(claim, "a\x00b"), Failed(claim, ErrorReport("E", "a\x00b", ""))):
        with pytest.raises(StoreDataError):
            store.settle(end)
    assert verdicts(store.settle(Finished(claim)), claim) == [Verdict.APPLIED]


@pytest.mark.only_on("mariadb")
def test_a_batch_larger_than_the_server_takes_is_a_data_error_and_can_be_settled_in_parts(store: Store) -> None:
    # A packet may have 16 MB. A larger one makes the server close the connection, which must not look like an outage.
    jobs = [job() for _ in range(5)]
    claims = store.claimed(*jobs)
    values = [str(n) * 8_000_000 for n in range(5)]
    with pytest.raises(StoreDataError) as caught:
        store.settle(*map(Finished, claims, values))
    assert caught.value.applied == "no"
    for claim, value in zip(claims, values, strict=True):
        assert verdicts(store.settle(Finished(claim, value)), claim) == [Verdict.APPLIED]
    assert [record.return_value for record in store.find(*jobs)] == values
