"""Builds jobs in every state, and jobs that were enqueued long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from steady_queue import arguments
from steady_queue.errors import ProcessPrunedError, TaskExpired
from steady_queue.models import ScheduledExecution
from steady_queue.monitoring.states import JobState
from steady_queue.store.ids import uuid_of
from steady_queue.store.job import CancelRequest, FailureKind, NewJob
from steady_queue.store.operations.actions.cancellation import cancel
from steady_queue.store.outcome import Failed, Finished, report_of
from tests.support.store.jobs import failed, job, later, limited, new_job_id, retried

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from tests.support.store.stores import SyncStore


def old_id(ago: timedelta) -> UUID:
    """The id of a job that was enqueued some time ago."""
    return uuid_of(new_job_id().int - (int(ago.total_seconds() * 1000) << 80))


def old_job(ago: timedelta = timedelta(hours=1), **options: Any) -> NewJob:
    """A job that was enqueued some time ago."""
    return job(**{"id": old_id(ago), "enqueued_at": datetime.now(UTC) - ago, **options})


def with_arguments(*args: Any, **kwargs: Any) -> str:
    """The stored text of arguments."""
    return arguments.dumps(args, kwargs)


def fail_lost(store: SyncStore, *jobs: NewJob) -> None:
    """Fail the jobs as if their process had been pruned."""
    error = report_of(ProcessPrunedError("no heartbeat"))
    store.settle(*(Failed(claim, error) for claim in store.claimed(*jobs)), process_name="lost worker")


def expire(store: SyncStore, *jobs: NewJob) -> None:
    error = report_of(TaskExpired("it was not started in time"))
    outcomes = [Failed(claim, error, kind=FailureKind.EXPIRED, is_attempt=False) for claim in store.claimed(*jobs)]
    store.settle(*outcomes)


def make_overdue(store: SyncStore, new: NewJob, by: timedelta = timedelta(minutes=10)) -> None:
    """Schedule a job for a time that has passed, as if no dispatcher were running."""
    store.enqueue(new._replace(scheduled_at=later()))
    rows = ScheduledExecution.objects.using(store.alias).filter(job_id=new.id)
    assert rows.update(scheduled_at=datetime.now(UTC) - by) == 1


def make_all_states(store: SyncStore) -> dict[JobState, NewJob]:
    """One task in each state. The ready one and the overdue one are in the queue "mail"."""
    made: dict[JobState, NewJob] = {}

    def new(state: JobState, make: Callable[..., NewJob] = job, **options: Any) -> NewJob:
        made[state] = make(**options)
        return made[state]

    store.settle(*map(failed, store.claimed(new(JobState.FAILED))))
    (claim,) = store.claimed(new(JobState.EXHAUSTED))
    store.settle(failed(claim, kind=FailureKind.EXHAUSTED))
    fail_lost(store, new(JobState.LOST))
    expire(store, new(JobState.EXPIRED))
    (claim,) = store.claimed(new(JobState.RETRYING))
    store.settle(retried(claim))
    store.settle(*map(Finished, store.claimed(new(JobState.FINISHED))))
    store.enqueue(new(JobState.SCHEDULED, scheduled_at=later()))
    store.enqueue(cancelled := new(JobState.CANCELLED))
    store.run(cancel(store.sql, [cancelled.id], CancelRequest("Ada", "too late")))
    store.claimed(new(JobState.RUNNING, limited), process_id=store.worker("worker of the running one"))
    store.enqueue(new(JobState.BLOCKED, limited))
    make_overdue(store, new(JobState.LATE, old_job, queue_name="mail"))
    store.enqueue(new(JobState.READY, queue_name="mail"))
    return made
