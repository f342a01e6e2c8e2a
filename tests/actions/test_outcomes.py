"""Actions on several tasks, with what came of it for each."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from steady_queue.actions.outcomes import OutcomeKind, apply_to
from steady_queue.models import FailedExecution
from steady_queue.store.job import Until
from steady_queue.store.outcome import Finished
from tests.support.databases.tables import counts
from tests.support.store.jobs import fail_jobs, job, later, limited, unique

if TYPE_CHECKING:
    from tests.support.store.stores import SyncStore

DONE, REQUESTED, STALE, REFUSED = OutcomeKind


def test_each_action_says_for_each_task_what_was_done_or_why_not(store: SyncStore) -> None:
    failed, running, finished, ready, missing = job(), job(), job(), job(), uuid4()
    scheduled, holder, blocked = job(scheduled_at=later()), limited(), limited()
    fail_jobs(store, failed)
    running_claim, other = store.claimed(running, finished)
    store.settle(Finished(other))
    store.enqueue(ready, scheduled, holder, blocked)
    ids = [failed.id, running.id, finished.id, ready.id, scheduled.id, blocked.id, missing, failed.id]

    def outcomes(action: str) -> list[tuple[OutcomeKind, str]]:
        found = apply_to(ids, action, by="Ada", reason="why")
        assert [outcome.job_id for outcome in found] == [str(id_) for id_ in ids]
        return [(outcome.kind, outcome.text) for outcome in found]

    assert outcomes("retry") == [
        (DONE, "was retried"),
        (STALE, "is running"),
        (STALE, "has finished"),
        (STALE, "is ready"),
        (STALE, "is scheduled"),
        (STALE, "is blocked"),
        (STALE, "no longer exists"),
        (DONE, "was retried"),
    ]
    assert [kind for kind, _ in outcomes("run_now")] == [*[STALE] * 4, DONE, DONE, STALE, STALE]
    assert counts(store.alias) == {"claimed": 1, "ready": 5}
    assert outcomes("cancel") == [
        (DONE, "was cancelled"),
        (REQUESTED, "runs, and its process was asked to stop it"),
        (STALE, "has finished"),
        *[(DONE, "was cancelled")] * 3,
        (STALE, "no longer exists"),
        (DONE, "was cancelled"),
    ]
    assert {row.message for row in FailedExecution.objects.using(store.alias).all()} == {"cancelled by Ada: why"}
    assert outcomes("discard") == [
        (DONE, "was discarded"),
        (STALE, "is running"),
        (STALE, "has finished"),
        *[(DONE, "was discarded")] * 3,
        (STALE, "no longer exists"),
        (DONE, "was discarded"),
    ]
    assert counts(store.alias) == {"claimed": 1, "ready": 1}
    store.settle(Finished(running_claim))


@pytest.mark.usually_on("sqlite")
def test_a_retry_of_a_task_whose_unique_key_another_has_is_refused(store: SyncStore) -> None:
    refused, holder, free = unique(until=Until.FINISHED), unique(until=Until.FINISHED), job()
    fail_jobs(store, refused, free)
    store.enqueue(holder)
    assert [(one.kind, one.text) for one in apply_to([refused.id, free.id], "retry")] == [
        (REFUSED, f"the task {holder.id} has its unique key"),
        (DONE, "was retried"),
    ]
    assert store.status(refused, free) == ["failed", "ready"]


@pytest.mark.usually_on("sqlite")
def test_an_unknown_action_is_refused_and_no_task_needs_none(store: SyncStore) -> None:
    with pytest.raises(ValueError, match="retry, discard, run_now, cancel"):
        apply_to([uuid4()], "delete")
    assert apply_to([], "retry") == []
