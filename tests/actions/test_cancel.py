"""Cancel: tasks that wait end at once, tasks that run are requested to stop, tasks that have ended stay as they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import transaction

from steady_queue import actions
from steady_queue.actions import CancelOutcome
from steady_queue.db import notify
from steady_queue.errors import JobIsRunning
from steady_queue.events import Event, JobsCancelled, JobsCancelRequested, subscribe
from steady_queue.jobs.compat import TaskResultDoesNotExist, task_backends
from steady_queue.jobs.results.task_result import SteadyQueueResult, TaskState
from steady_queue.store.job import CancelRequest, FailureKind, Until
from steady_queue.store.operations.actions.cancellation import find_requests
from steady_queue.store.outcome import Failed, Finished, Retried
from tests.shop import tasks
from tests.support.databases.tables import count, counts, query, row
from tests.support.fixtures import nothing_registered
from tests.support.store.jobs import fail_jobs, job, later, limited, report

if TYPE_CHECKING:
    from tests.actions.conftest import Caller
    from tests.support.store.stores import SyncStore

__all__ = ["nothing_registered"]

CANCELLED = "steady_queue.errors.TaskCancelled"


def stored(result_id: object) -> SteadyQueueResult[Any]:
    found = task_backends["default"].get_result(str(result_id))
    assert isinstance(found, SteadyQueueResult)
    return found


def test_t9_a_task_that_waits_is_revoked_and_never_runs(store: SyncStore, caller: Caller) -> None:
    """T9 of django-taskq: `AsyncResult(id).revoke()` removes a task that has not started."""
    ready, scheduled, holder, blocked = job(), job(scheduled_at=later()), limited(), limited()
    store.enqueue(ready, scheduled, holder, blocked)
    for new in (ready, scheduled, blocked):
        assert caller("cancel", new.id, by="Ada", reason="not needed") is CancelOutcome.CANCELLED
    assert counts(store.alias) == {"ready": 1, "failed": 3}
    assert [claim.job_id for claim in store.claim(store.worker(), 9)] == [holder.id]


def test_r7_who_cancelled_a_task_and_why_is_stored_with_it(store: SyncStore, caller: Caller) -> None:
    """R7 of raquel: a status `cancelled`, with an error."""
    result = tasks.greet.enqueue("Ada")
    outcome = caller.do(result, "cancel", by="Grace", reason="the order was withdrawn")
    assert outcome is CancelOutcome.CANCELLED
    after = stored(result.id)
    assert after.state is TaskState.CANCELLED
    assert after.finished_at is not None
    assert after.attempts == 0
    (error,) = after.errors
    assert error.exception_class_path == CANCELLED
    assert "cancelled by Grace: the order was withdrawn" in error.traceback
    failure = row(store.alias, "failedexecution", result.id)
    assert failure is not None
    assert (failure["kind"], failure["message"]) == (
        FailureKind.CANCELLED,
        "cancelled by Grace: the order was withdrawn",
    )


def test_the_slot_of_a_cancelled_task_goes_to_the_next(store: SyncStore, caller: Caller) -> None:
    holder, blocked = limited(), limited()
    store.enqueue(holder, blocked)
    assert caller("cancel", holder.id)
    assert store.status(holder, blocked) == ["failed", "ready"]


def test_a_cancelled_task_leaves_neither_its_unique_key_nor_its_expiry(store: SyncStore, caller: Caller) -> None:
    new, other = job(), job()
    store.enqueue(new, other)
    query(
        store.alias,
        "UPDATE steady_queue_job SET unique_key = 'key', expires_at = enqueued_at WHERE id = %s",
        *ids(store, new),
    )
    query(
        store.alias,
        "INSERT INTO steady_queue_uniquekey (unique_key, job_id, until) VALUES ('key', %s, %s)",
        *ids(store, new),
        Until.FINISHED.value,
    )
    query(
        store.alias, "INSERT INTO steady_queue_expiry (job_id, expires_at) SELECT id, enqueued_at FROM steady_queue_job"
    )
    assert caller("cancel_many", [new.id, other.id]) == [str(new.id), str(other.id)]
    assert count(store.alias, "uniquekey") == 0
    assert count(store.alias, "expiry") == 0


def test_a_running_task_is_requested_to_stop_once(store: SyncStore, caller: Caller) -> None:
    new = job()
    process_id = store.worker()
    (claim,) = store.claimed(new, process_id=process_id)
    assert caller("cancel", new.id, by="Ada", reason="first") is CancelOutcome.REQUESTED
    assert caller("cancel", new.id, by="Grace", reason="second") is CancelOutcome.REQUESTED
    assert store.run(find_requests(store.sql, process_id)).claims == [(claim.claim_id, CancelRequest("Ada", "first"))]
    assert store.run(find_requests(store.sql, store.worker("another"))).claims == []
    assert store.status(new) == ["claimed"]
    with pytest.raises(JobIsRunning):
        caller("discard", new.id)


def test_the_end_of_a_cancelled_task_deletes_the_request(store: SyncStore) -> None:
    mine, others = job(), job()
    first, second = store.claimed(mine, others)
    actions.cancel_many([mine.id, others.id])
    store.settle(Failed(first, report(), kind=FailureKind.CANCELLED), Finished(second))
    assert [found[0] for found in query(store.alias, "SELECT count(*) FROM steady_queue_cancellation")] == [1]
    assert store.status(mine, others) == ["failed", "finished"]


def test_a_task_that_has_ended_is_not_changed(store: SyncStore, caller: Caller) -> None:
    bad, good = job(), job()
    fail_jobs(store, bad)
    store.settle(Finished(store.claimed(good)[0]))
    before = store.find(bad, good)
    for new in (bad, good):
        outcome = caller("cancel", new.id, reason="too late")
        assert outcome is CancelOutcome.ALREADY_ENDED
        assert not outcome
    assert caller("cancel_many", [bad.id, good.id, uuid4()]) == []
    assert store.find(bad, good) == before
    assert count(store.alias, "cancellation") == 0


def test_a_task_that_does_not_exist_cannot_be_cancelled(caller: Caller) -> None:
    for name in (uuid4(), "no id", "x' OR 1=1--"):
        with pytest.raises(TaskResultDoesNotExist):
            caller("cancel", name)


def test_who_and_why_must_be_texts_that_can_be_stored(store: SyncStore, caller: Caller) -> None:
    new = job()
    store.enqueue(new)
    wrong: list[dict[str, Any]] = [{"by": 7}, {"reason": "x" * 1001}, {"by": "\x00"}, {"reason": "\ud800"}]
    for options in wrong:
        with pytest.raises(ValueError, match=next(iter(options))):
            caller("cancel", new.id, **options)
    assert store.status(new) == ["ready"]


def test_a_task_that_was_retried_by_hand_is_not_cancelled_by_an_old_request(store: SyncStore, caller: Caller) -> None:
    new = job()
    (claim,) = store.claimed(new)
    actions.cancel(new.id)
    store.settle(Failed(claim, report()))  # its process had not read the request
    assert caller("retry", new.id) is True
    assert count(store.alias, "cancellation") == 0


def test_a_cancelled_task_can_be_retried_by_hand_and_keeps_its_errors(store: SyncStore, caller: Caller) -> None:
    new = job()
    fail_jobs(store, new)
    for _ in range(2):
        assert caller("retry", new.id) is True
        assert caller("cancel", new.id) is CancelOutcome.CANCELLED
    lines = str(store.find(new)[0].errors).split("\n")
    kinds = [json.loads(line)["exception_class_path"] for line in lines]
    assert kinds == ["builtins.ValueError", CANCELLED, CANCELLED]


def test_a_task_that_waits_for_its_next_attempt_is_cancelled(store: SyncStore, caller: Caller) -> None:
    new = job()
    store.settle(Retried(store.claimed(new)[0], report(), delay_seconds=3600))
    assert stored(new.id).state is TaskState.RETRYING
    assert caller("cancel", new.id) is CancelOutcome.CANCELLED
    assert stored(new.id).state is TaskState.CANCELLED


# -- transactions -----------------------------------------------------------------------------------------------------


def test_in_a_transaction_everything_happens_with_its_commit(store: SyncStore) -> None:
    holder, blocked, running = limited(), limited(), job()
    (claim,) = store.claimed(running)
    store.enqueue(holder, blocked)
    woken: list[str] = []
    stop = notify.listen_locally(store.alias, lambda: woken.append("cancel"), notify.CANCELLATIONS)
    try:
        with transaction.atomic(using=store.alias):
            assert actions.cancel(holder.id) is CancelOutcome.CANCELLED
            assert actions.cancel(running.id) is CancelOutcome.REQUESTED
            assert not woken
            transaction.set_rollback(True, using=store.alias)
        assert not woken
        assert store.status(holder, blocked, running) == ["ready", "blocked", "claimed"]
        with transaction.atomic(using=store.alias):
            actions.cancel_many([holder.id, running.id])
            assert store.status(holder, blocked) == ["failed", "blocked"]
        assert woken == ["cancel"]
    finally:
        stop()
    assert store.status(holder, blocked) == ["failed", "ready"]
    store.settle(Failed(claim, report(), kind=FailureKind.CANCELLED))


# -- by filter --------------------------------------------------------------------------------------------------------


def test_tasks_are_cancelled_by_status_queue_and_task(store: SyncStore, caller: Caller) -> None:
    running = job(queue_name="mail")
    store.claimed(running)
    mail = [job(queue_name="mail"), job(queue_name="mail", scheduled_at=later())]
    other, greet = job(), job(task_path=tasks.greet.module_path)
    store.enqueue(*mail, other, greet)
    assert caller("cancel_where", "ready", "running", queue="mail", by="Ada") == 2
    assert store.status(running, *mail, other) == ["claimed", "failed", "scheduled", "ready"]
    assert caller("cancel_where", "ready", task=tasks.greet) == 1
    assert caller("cancel_where", "scheduled", "blocked", "ready", "running") == 3
    assert counts(store.alias) == {"claimed": 1, "failed": 4}


def test_a_filter_reaches_every_task_of_many(store: SyncStore) -> None:
    store.claimed(*[job() for _ in range(700)])
    store.enqueue(*[job() for _ in range(700)])
    assert actions.cancel_where("ready", "running", reason="all") == 1400
    assert counts(store.alias) == {"claimed": 700, "failed": 700}
    assert count(store.alias, "cancellation") == 700


def test_tasks_that_get_a_freed_slot_are_kept(store: SyncStore, caller: Caller) -> None:
    first, second = limited(), limited()
    store.enqueue(first, second)
    assert caller("cancel_where", "ready") == 1
    assert store.status(first, second) == ["failed", "ready"]


def test_a_filter_that_makes_no_sense_is_refused(caller: Caller) -> None:
    for statuses in ((), ("finished",), ("ready", "failed")):
        with pytest.raises(ValueError, match="cancel"):
            caller("cancel_where", *statuses)
    with pytest.raises(TypeError):
        caller("cancel_where", "ready", exception=ValueError)
    with pytest.raises(ValueError, match="by must be a string"):
        caller("cancel_where", "ready", by=1)


# -- events -----------------------------------------------------------------------------------------------------------


def test_events_say_who_cancelled_what_and_why(store: SyncStore, caller: Caller) -> None:
    waiting, running = job(), job()
    store.claimed(running)
    store.enqueue(waiting)
    emitted: list[Event] = []
    subscribe(emitted.append, only=(JobsCancelled, JobsCancelRequested))
    caller("cancel_many", [waiting.id, running.id], by="Ada", reason="the end")
    ended, requested = emitted
    assert isinstance(ended, JobsCancelled)
    assert isinstance(requested, JobsCancelRequested)
    assert (ended.job_ids, requested.job_ids) == ([waiting.id], [running.id])
    assert ended.by == requested.by == "Ada"
    assert ended.message() == "cancelled 1 waiting job (by: Ada, reason: the end)"
    assert json.dumps(requested.reason) == '"the end"'


def ids(store: SyncStore, *jobs: Any) -> list[Any]:
    """The ids as Django's connection to this database stores them."""
    has_uuids = store.sql.name in ("PostgreSQL", "MariaDB")
    return [new.id if has_uuids else new.id.hex for new in jobs]
