"""The fence before a settle: claims that were lost, and settles that are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from steady_queue.store.outcome import Failed, Finished, Released, Settlement, Verdict
from tests.support.databases.tables import count
from tests.support.store.jobs import failed, job, limited, report
from tests.support.store.rows import all_rows, each_end, job_row, verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store


# -- the fence --------------------------------------------------------------------------------------------------------


@each_end
@pytest.mark.parametrize("make", [job, limited])
def test_a_late_settle_of_a_lost_claim_changes_nothing(
    store: Store, end: Callable[[Claim], Outcome], make: Callable[[], NewJob]
) -> None:
    new = make()
    (claim,) = store.claimed(new)
    store.settle(failed(claim, "pruned"), process_name="other", by_owner=False)
    before = all_rows(store)
    assert verdicts(store.settle(end(claim)), claim) == [Verdict.FENCED]
    assert all_rows(store) == before
    assert store.status(new) == ["failed"]


@each_end
def test_a_late_settle_of_a_job_that_already_runs_in_another_process_changes_nothing(
    store: Store, end: Callable[[Claim], Outcome]
) -> None:
    new, waiting = limited(), limited()
    (claim,) = store.claimed(new)
    store.settle(failed(claim), process_name="other", by_owner=False)
    store.retry(new)
    (again,) = store.claim(store.worker())
    store.enqueue(waiting)
    before = all_rows(store)
    assert verdicts(store.settle(end(claim)), claim) == [Verdict.FENCED]
    assert all_rows(store) == before
    assert verdicts(store.settle(Finished(again)), again) == [Verdict.APPLIED]


@each_end
def test_an_old_claim_cannot_settle_the_same_job_claimed_again_by_the_same_process(
    store: Store, end: Callable[[Claim], Outcome]
) -> None:
    new, worker = job(), store.worker()
    (old,) = store.claimed(new, process_id=worker)
    store.settle(Released(old))
    (fresh,) = store.claim(worker)
    before = all_rows(store)
    assert verdicts(store.settle(end(old)), old) == [Verdict.FENCED]
    assert all_rows(store) == before
    assert verdicts(store.settle(end(fresh)), fresh) == [Verdict.APPLIED]


def test_a_process_that_ends_the_claim_of_another_counts_the_attempt_and_records_its_name(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Failed(claim, report("pruned")), process_name="pruned-1", by_owner=False)
    found = job_row(store, new)
    assert (found["attempts"], found["worker_ids"]) == (1, "pruned-1")
    assert (found["last_attempted_at"], found["last_claim_id"]) == (claim.claimed_at, None)


def test_ending_a_claim_of_another_process_keeps_who_settled_the_attempt_before(store: Store) -> None:
    new = job()
    (first,) = store.claimed(new)
    store.settle(failed(first))
    store.retry(new)
    (second,) = store.claim(store.worker())
    store.settle(failed(second), by_owner=False)
    assert job_row(store, new)["last_claim_id"] == first.claim_id
    assert verdicts(store.settle(failed(second)), second) == [Verdict.FENCED]
    assert verdicts(store.settle(failed(first)), first) == [Verdict.REPEATED]


def test_a_late_end_of_a_claim_by_another_process_does_not_fail_the_finished_job(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(Finished(claim, "1"))
    before = all_rows(store)
    store.settle(failed(claim), process_name="other", by_owner=False)
    assert all_rows(store) == before


# -- repeated ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Finished, failed])
@pytest.mark.parametrize("make", [job, limited])
def test_a_settle_repeated_after_a_lost_reply_reports_repeated_and_changes_nothing(
    store: Store, end: Callable[[Claim], Outcome], make: Callable[[], NewJob]
) -> None:
    new, waiting = make(), make()
    (claim,) = store.claimed(new)
    store.enqueue(waiting)
    store.settle(end(claim))
    before = all_rows(store)
    assert store.settle(end(claim)) == Settlement({claim.claim_id: Verdict.REPEATED}, 0)
    assert all_rows(store) == before


@pytest.mark.parametrize("preserve", [True, False])
def test_a_settle_repeated_for_a_deleted_job_reports_repeated(store: Store, preserve: bool) -> None:
    (claim,) = store.claimed(limited())
    store.settle(Finished(claim), preserve=False)
    assert store.settle(Finished(claim), preserve=preserve) == Settlement({claim.claim_id: Verdict.REPEATED}, 0)
    assert count(store.alias, "job") == 0


def test_a_settle_repeated_after_the_job_was_retried_manually_reports_repeated(store: Store) -> None:
    new = job()
    (claim,) = store.claimed(new)
    store.settle(failed(claim))
    store.retry(new)
    before = all_rows(store)
    assert verdicts(store.settle(failed(claim)), claim) == [Verdict.REPEATED]
    assert all_rows(store) == before
