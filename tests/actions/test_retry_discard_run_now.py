"""Retry, discard and run now, of one task and of several."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from steady_queue import actions
from steady_queue.db import notify
from steady_queue.errors import JobIsRunning
from steady_queue.jobs.compat import TaskResultDoesNotExist
from steady_queue.store.operations.actions.job_actions import MANUAL_SLOT_BASE
from steady_queue.store.outcome import Finished
from tests.shop import tasks
from tests.support.databases.tables import count, counts, query, row
from tests.support.store.jobs import discarding, fail_jobs, job, later, limited

if TYPE_CHECKING:
    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore


# -- retry ------------------------------------------------------------------------------------------------------------


def test_a_failed_task_is_retried_and_its_failed_row_is_gone(store: SyncStore, caller: Caller) -> None:
    new = job()
    fail_jobs(store, new)
    query(store.alias, "UPDATE steady_queue_job SET retries = 3")
    assert caller("retry", str(new.id)) is True
    assert counts(store.alias) == {"ready": 1}
    assert row(store.alias, "Job", new.id, "id")["retries"] == 0  # type: ignore[index]
    assert caller("retry", new.id) is False


def test_a_task_is_named_by_its_result_too(store: SyncStore, caller: Caller) -> None:
    result = tasks.greet.enqueue("Ada")
    (claim,) = store.claim(store.worker())
    with pytest.raises(JobIsRunning):
        caller("retry", result)
    store.settle(Finished(claim))
    assert caller("retry", result) is False
    assert caller("discard", result) is False


def test_many_are_retried_the_limited_ones_too_and_all_their_failed_rows_are_gone(
    store: SyncStore, caller: Caller
) -> None:
    plain, other = job(), job()
    pair = [limited(to=2), limited(to=2)]
    more = [limited(to=2), limited(to=2)]
    fail_jobs(store, plain, *pair)
    fail_jobs(store, *more)
    store.enqueue(other)
    given = [plain.id, *(new.id for new in (*pair, *more)), other.id, uuid4(), plain.id]
    assert caller("retry_many", given) == [str(id_) for id_ in given[:5]]
    assert counts(store.alias) == {"ready": 4, "blocked": 2}
    assert caller("retry_many", []) == []


def test_what_is_no_task_does_not_exist(caller: Caller) -> None:
    for action in ("retry", "discard", "run_now"):
        for name in (uuid4(), "no id", "x' OR 1=1--"):
            with pytest.raises(TaskResultDoesNotExist):
                caller(action, name)


# -- discard ----------------------------------------------------------------------------------------------------------


def test_a_task_that_does_not_run_is_discarded_from_every_state(store: SyncStore, caller: Caller) -> None:
    bad, ready, scheduled, holder, blocked = job(), job(), job(scheduled_at=later()), limited(), limited()
    fail_jobs(store, bad)
    store.enqueue(ready, scheduled, holder, blocked)
    for new in (bad, ready, scheduled, blocked):
        assert caller("discard", new.id) is True
    assert counts(store.alias) == {"ready": 1}
    assert (count(store.alias, "job"), count(store.alias, "semaphore")) == (1, 1)


def test_a_running_task_is_not_discarded_and_nothing_changes(store: SyncStore, caller: Caller) -> None:
    new = limited()
    (claim,) = store.claimed(new)
    for action in ("discard", "retry", "run_now"):
        with pytest.raises(JobIsRunning, match=str(new.id)):
            caller(action, new.id)
    assert caller("discard_many", [new.id]) == []
    assert store.settle(Finished(claim)).verdicts[claim.claim_id] == "applied"


def test_discarding_a_ready_limited_task_makes_the_next_one_ready(store: SyncStore, caller: Caller) -> None:
    holder, waiting, last = limited(), limited(), limited()
    store.enqueue(holder, waiting, last)
    assert caller("discard", holder.id) is True
    assert store.status(waiting, last) == ["ready", "blocked"]
    assert caller("discard", last.id) is True
    assert store.status(waiting) == ["ready"]


def test_more_than_a_batch_is_discarded(store: SyncStore, caller: Caller) -> None:
    jobs = [job() for _ in range(1100)]
    store.enqueue(*jobs)
    assert caller("discard_many", (new.id for new in jobs[:1050])) == [str(new.id) for new in jobs[:1050]]
    assert counts(store.alias) == {"ready": 50}


# -- run now ----------------------------------------------------------------------------------------------------------


def test_a_scheduled_task_becomes_ready_or_queues_for_a_slot(store: SyncStore, caller: Caller) -> None:
    jobs = [job(scheduled_at=later()), *(make(scheduled_at=later()) for make in (limited, limited, discarding))]
    store.enqueue(*jobs)
    assert caller("run_now_many", [new.id for new in jobs]) == [str(new.id) for new in jobs]
    assert store.status(*jobs) == ["ready", "ready", "blocked", "blocked"]
    assert caller("run_now", jobs[0].id) is False


def test_a_blocked_task_gets_a_slot_above_the_limit_which_counts(store: SyncStore, caller: Caller) -> None:
    jobs = [limited(to=2) for _ in range(6)]
    store.enqueue(*jobs)
    assert caller("run_now_many", [jobs[4].id, jobs[5].id]) == [str(jobs[4].id), str(jobs[5].id)]
    assert store.status(*jobs) == ["ready", "ready", "blocked", "blocked", "ready", "ready"]
    slots = query(store.alias, "SELECT slot FROM steady_queue_semaphore ORDER BY slot")
    assert [slot for (slot,) in slots] == [1, 2, MANUAL_SLOT_BASE + 1, MANUAL_SLOT_BASE + 2]
    claims = store.claim(store.worker(), 4)
    for claim in claims[:2]:
        assert store.settle(Finished(claim)).promoted == 0
    assert store.settle(Finished(claims[2])).promoted == 1
    assert store.settle(Finished(claims[3])).promoted == 1
    assert store.status(*jobs[2:4]) == ["ready", "ready"]


def test_ready_failed_and_finished_tasks_are_not_run_now(store: SyncStore, caller: Caller) -> None:
    bad, done, ready = job(), job(), limited()
    fail_jobs(store, bad)
    store.settle(*map(Finished, store.claimed(done)))
    store.enqueue(ready)
    assert caller("run_now_many", [bad.id, done.id, ready.id]) == []
    assert counts(store.alias) == {"ready": 1, "failed": 1}


# -- workers are woken ------------------------------------------------------------------------------------------------


def test_workers_are_woken_when_something_became_ready_and_only_then(store: SyncStore, caller: Caller) -> None:
    bad, holder, blocked, soon, plain = job(), limited(), limited(), job(scheduled_at=later()), job()
    fail_jobs(store, bad)
    store.enqueue(holder, blocked, soon, plain)
    rung: list[str] = []
    now = ""
    end = notify.listen_locally(store.alias, lambda: rung.append(now))
    try:
        for now, name in (
            ("retry", bad),
            ("retry", bad),
            ("run_now", soon),
            ("discard", plain),
            ("discard", holder),
            ("discard", blocked),
        ):
            caller(now, name.id)
        for now in ("pause", "pause", "resume", "resume"):
            caller(now, "default")
    finally:
        end()
    assert rung == ["retry", "run_now", "discard", "resume"]


# -- inside a transaction ---------------------------------------------------------------------------------------------


def test_inside_a_transaction_everything_goes_with_its_rollback(store: SyncStore) -> None:
    bad, holder, blocked, soon = job(), limited(), limited(), limited("other", scheduled_at=later())
    fail_jobs(store, bad)
    store.enqueue(holder, blocked, soon)
    before = counts(store.alias)
    with transaction.atomic(using=store.alias):
        assert actions.retry(bad.id)
        assert actions.discard(holder.id)
        assert actions.run_now_many([blocked.id, soon.id]) == [str(blocked.id), str(soon.id)]
        assert actions.pause("mail")
        transaction.set_rollback(True, using=store.alias)
    assert counts(store.alias) == before
    assert count(store.alias, "pause") == 0


def test_inside_a_transaction_slots_are_given_out_after_its_commit(store: SyncStore) -> None:
    bad, holder, blocked, soon = limited("a"), limited(), limited(), limited("b", scheduled_at=later())
    fail_jobs(store, bad)
    store.enqueue(holder, blocked, soon)
    with transaction.atomic(using=store.alias):
        assert actions.retry(bad.id)
        assert actions.discard(holder.id)
        assert actions.run_now(soon.id)
        assert store.status(bad, blocked, soon) == ["blocked"] * 3
    assert store.status(bad, blocked, soon) == ["ready"] * 3
    last = limited()
    store.enqueue(last)
    with transaction.atomic(using=store.alias):
        assert actions.run_now(last.id)
        assert store.status(last) == ["blocked"]
    assert store.status(last) == ["ready"]


def test_under_manual_transactions_a_blocked_task_is_not_run_now_and_the_result_reports_it(store: SyncStore) -> None:
    holder, blocked, scheduled = limited(), limited(), job(scheduled_at=later())
    store.enqueue(holder, blocked, scheduled)
    transaction.set_autocommit(False, using=store.alias)
    try:
        with pytest.raises(TransactionManagementError, match=f"{blocked.id} is blocked: .*set_autocommit"):
            actions.run_now(blocked.id)
        assert actions.run_now_many([blocked.id, scheduled.id]) == [str(scheduled.id)]
        transaction.commit(using=store.alias)
    finally:
        transaction.set_autocommit(True, using=store.alias)
    assert store.status(holder, blocked, scheduled) == ["ready", "blocked", "ready"]
