"""What came of a change of tasks: for each of them, in words."""

from __future__ import annotations

from uuid import uuid4

import pytest

from steady_queue.actions.outcomes import OutcomeKind, apply_to
from steady_queue.models.endings import Cancellation
from steady_queue.store.job import Until
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import counts, row
from tests.support.store.jobs import fail_jobs, job, later, limited, unique
from tests.support.store.stores import SyncStore

DONE, REQUESTED, STALE, REFUSED = OutcomeKind


def test_each_task_has_an_outcome_that_says_what_was_done_or_why_not(database: str) -> None:
    store = SyncStore(database)
    failed, refused, running, finished, ready = job(), unique(until=Until.FINISHED), job(), job(), job()
    fail_jobs(store, failed, refused)
    claim, other = store.claimed(running, finished)
    store.settle(Finished(other))
    key_holder = unique(until=Until.FINISHED)
    store.enqueue(ready, key_holder)
    missing = uuid4()
    outcomes = apply_to([failed.id, refused.id, running.id, finished.id, ready.id, missing], "retry")
    assert [(outcome.kind, outcome.text) for outcome in outcomes] == [
        (DONE, "was retried"),
        (REFUSED, f"the task {key_holder.id} has its unique key"),
        (STALE, "is running"),
        (STALE, "has finished"),
        (STALE, "is ready"),
        (STALE, "no longer exists"),
    ]
    assert [outcome.job_id for outcome in outcomes][:2] == [str(failed.id), str(refused.id)]
    store.settle(Finished(claim))


@pytest.mark.usually_on("sqlite")
def test_running_tasks_are_asked_to_stop_and_waiting_ones_are_cancelled(database: str) -> None:
    store = SyncStore(database)
    running, scheduled = job(), job(scheduled_at=later())
    (claim,) = store.claimed(running)
    store.enqueue(scheduled)
    outcomes = apply_to([running.id, scheduled.id], "cancel", by="Ada", reason="too late")
    assert [outcome.kind for outcome in outcomes] == [REQUESTED, DONE]
    request = Cancellation.objects.using(database).get()
    assert (request.requested_by, request.reason) == ("Ada", "too late")
    failure = row(database, "failedexecution", scheduled.id)
    assert failure is not None
    assert failure["message"] == "cancelled by Ada: too late"
    assert [outcome.text for outcome in apply_to([scheduled.id], "cancel")] == ["was cancelled"]
    assert [outcome.kind for outcome in apply_to([scheduled.id], "cancel")] == [STALE]
    store.settle(Finished(claim))


@pytest.mark.usually_on("sqlite")
def test_blocked_and_scheduled_tasks_run_now_and_discarded_tasks_are_deleted(database: str) -> None:
    store = SyncStore(database)
    holder, blocked, scheduled = limited(), limited(), job(scheduled_at=later())
    store.enqueue(holder, blocked, scheduled)
    assert [one.kind for one in apply_to([blocked.id, scheduled.id, holder.id], "run_now")] == [
        DONE,
        DONE,
        STALE,
    ]
    assert counts(database) == {"ready": 3}
    assert [one.text for one in apply_to([blocked.id, blocked.id], "discard")] == ["was discarded"] * 2
    assert [one.text for one in apply_to([blocked.id], "discard")] == ["no longer exists"]
    assert counts(database) == {"ready": 2}
