"""Expiry: until when a task must have been started."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from steady_queue.jobs.compat import InvalidTask
from steady_queue.jobs.definition.durations import read_limit
from steady_queue.store.job import FailureKind
from steady_queue.store.operations.expiry import EXPIRED
from steady_queue.store.outcome import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steady_queue.jobs.compat import Task
    from steady_queue.store.job import Claim

#: Later than this no database stores a time.
LATEST = datetime(9999, 12, 31, tzinfo=UTC)


def expires_at(
    task: Task[..., Any], defaults: Mapping[str, Any], now: datetime, run_after: datetime | None
) -> datetime | None:
    """Return when a new job of the task expires; None: never. `defaults` are the options of the backend.

    `expires_after` counts from when the task is due: a default of the project must not end delayed tasks.
    """
    moment: datetime | None = getattr(task, "expires_at", None)
    if moment is not None:
        if run_after is not None and moment <= run_after:
            raise InvalidTask(f"{task.module_path}: expires_at must be later than run_after, or the task never runs")
        return moment.astimezone(UTC)
    after = getattr(task, "expires_after", None)
    if after is None:
        after = defaults.get("expires_after")
    if after is None or (seconds := read_limit(after)) is None:
        return None
    due = now if run_after is None else max(now, run_after)
    return LATEST if due >= LATEST else min(due + timedelta(seconds=seconds), LATEST)


def refuse_expired(claim: Claim) -> Failed | None:
    """Return the outcome of a claim whose task has expired before its first attempt; None if it may run."""
    if claim.expires_at is None or claim.attempts or claim.expires_at > claim.claimed_at:
        return None
    return Failed(claim, EXPIRED, kind=FailureKind.EXPIRED, is_attempt=False)
