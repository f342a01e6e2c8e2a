"""Builds jobs, errors and outcomes with the options that a test needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.store.ids import new_job_ids
from steady_queue.store.job import Claim, Lane, NewJob, OnConflict, Until
from steady_queue.store.outcome import ErrorReport, Failed, Retried

if TYPE_CHECKING:
    from uuid import UUID

    from tests.support.store.stores import SyncStore

PATH = "tests.shop.tasks.noop"


def new_job_id() -> UUID:
    return new_job_ids(1)[0]


def job(**options: Any) -> NewJob:
    """A job for the default queue, to be run at once."""
    now = datetime.now(UTC)
    plain = {
        "id": new_job_id(),
        "queue_name": "default",
        "task_path": PATH,
        "arguments": '{"args": [], "kwargs": {}}',
        "priority": 0,
        "lane": Lane.ASYNC,
        "backend": "default",
        "enqueued_at": now.replace(microsecond=now.microsecond // 1000 * 1000),
    }
    return NewJob(**{**plain, **options})


def limited(key: str = "key", to: int = 1, **options: Any) -> NewJob:
    """A job of which at most `to` with the same key may run at the same time."""
    plain = {"concurrency_key": key, "concurrency_limit": to, "on_conflict": OnConflict.BLOCK}
    return job(**{**plain, **options})


def discarding(key: str = "key", to: int = 1, **options: Any) -> NewJob:
    """A limited job that is discarded when it finds no free slot."""
    return limited(key, to, on_conflict=OnConflict.DISCARD, **options)


def unique(key: str = "key", until: Until = Until.FINISHED, **options: Any) -> NewJob:
    """A job of which only one with the same key may exist, until it has started or ended."""
    return job(**{"unique_key": key, "unique_until": until.value, **options})


def later(**delay: float) -> datetime:
    """A time in the future, an hour from now by default."""
    return datetime.now(UTC) + timedelta(**(delay or {"hours": 1}))


def report(message: str = "it broke") -> ErrorReport:
    """An error as a worker would report it."""
    return ErrorReport("builtins.ValueError", message, f"Traceback ...\nValueError: {message}")


def failed(claim: Claim, message: str = "it broke", **options: Any) -> Failed:
    """The end of an attempt with that error."""
    return Failed(claim, report(message), **options)


def retried(claim: Claim, message: str = "it broke", *, delay_seconds: float = 1800) -> Retried:
    """The end of an attempt that is followed by another one, after half an hour."""
    return Retried(claim, report(message), delay_seconds)


def fail_jobs(store: SyncStore, *jobs: NewJob, **options: Any) -> None:
    """Claim the jobs and settle them as failed."""
    store.settle(*(failed(claim, **options) for claim in store.claimed(*jobs)))
