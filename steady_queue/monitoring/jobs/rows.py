"""JobRow: what a list shows of one task, read for a page of ids by one query."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Q, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Left, Length, Right

from steady_queue.db.aliases import django_driver, queue_alias
from steady_queue.jobs.running.reports import load_progress
from steady_queue.models import ClaimedExecution, FailedExecution, Job, Process
from steady_queue.models.fields import MomentField
from steady_queue.monitoring.jobs.argument_text import short_text
from steady_queue.monitoring.jobs.current_state import STATE_COLUMNS, column_of, find_state
from steady_queue.monitoring.states import LATE_SECONDS, JobState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.jobs.running.reports import Progress

#: Characters of stored texts that are read for a row.
ARGUMENT_CHARACTERS, ERRORS_CHARACTERS, MESSAGE_CHARACTERS = 2_000, 20_000, 200

_COLUMNS = (
    *("id", "task_path", "queue_name", "priority", "lane", "enqueued_at", "scheduled_at", "last_attempted_at"),
    *("finished_at", "attempts", "retries", "worker_ids", "concurrency_key", "progress"),
)
_STATE_COLUMNS: dict[str, Any] = {
    **STATE_COLUMNS,
    "failed_at": column_of(FailedExecution, "failed_at"),
    "message": Left(column_of(FailedExecution, "message"), MESSAGE_CHARACTERS),
    "process_id": column_of(ClaimedExecution, "process_id"),
}
#: Of other jobs, the last error is in the failed row, or does not matter.
_HAS_NOT_ENDED = Q(errors__isnull=False, finished_at__isnull=True, failed_kind__isnull=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of a list."""

    id: UUID
    task_path: str
    queue_name: str
    priority: int
    #: What the task does now. `late` is a property of a task that is scheduled or ready: see `is_late`.
    state: JobState
    is_late: bool
    #: The time that matters in its state: when it ended, began to run, is due, or was enqueued.
    at: datetime | None
    enqueued_at: datetime | None
    #: When it was or is to run at the earliest; of a task that is ready after a failed attempt, when that began.
    due_at: datetime | None
    #: The class of its last error, the first line of the message.
    error_class: str
    error_message: str
    #: The name of the process that runs it, or ran it last.
    worker: str
    #: The id of the process that runs it.
    process_id: UUID | None
    #: How many attempts have begun.
    attempts: int
    retries: int
    progress: Progress | None
    concurrency_key: str
    #: On one line, cut, with secrets redacted.
    arguments: str


def load_rows(ids: Sequence[UUID]) -> tuple[JobRow, ...]:
    """Return the rows of the jobs that still exist, in the order of the ids: by at most two queries."""
    by_id = {stored["id"]: stored for stored in read_columns(ids)}
    names = find_process_names({stored["process_id"] for stored in by_id.values()} - {None})
    return tuple(build_row(by_id[id_], names) for id_ in ids if id_ in by_id)


def read_columns(ids: Sequence[UUID], *more: str, **texts: Any) -> list[Mapping[str, Any]]:
    """Read what rows are built from, and more columns or expressions of the jobs. `now` is the database's time."""
    if not ids:
        return []
    texts["some_arguments"] = Left("arguments", ARGUMENT_CHARACTERS)
    texts["characters"] = Length("arguments")
    texts["last_errors"] = Case(When(_HAS_NOT_ENDED, then=Right("errors", ERRORS_CHARACTERS)), default=Value(""))
    jobs = Job.objects.using(queue_alias()).filter(id__in=ids).annotate(**_STATE_COLUMNS)
    # In the same query: lists read no more than they need.
    now_text = django_driver(queue_alias()).sql.now.replace("%", "%%")
    now = RawSQL(now_text, (), output_field=MomentField())  # noqa: S611, a constant of the dialect
    return list(jobs.values(*_COLUMNS, *_STATE_COLUMNS, *more, now=now, **texts))


def find_process_names(ids: Collection[UUID]) -> dict[UUID, str]:
    """Return the names of the processes that are registered."""
    return dict(Process.objects.using(queue_alias()).filter(id__in=ids).values_list("id", "name")) if ids else {}


def build_row(stored: Mapping[str, Any], names: Mapping[UUID, str]) -> JobRow:
    """Return the row of these columns. `names` are those of processes, by their ids."""
    late_before = stored["now"] - timedelta(seconds=LATE_SECONDS)
    state = find_state(stored)
    process_id = stored["process_id"]
    due_at = _due_at(stored)
    error_class, message = _error(stored)
    is_running = state is JobState.RUNNING
    waits = state in (JobState.READY, JobState.SCHEDULED, JobState.RETRYING)
    worker = names.get(process_id, str(process_id)) if is_running else (stored["worker_ids"] or "").rpartition("\n")[2]
    return JobRow(
        id=stored["id"],
        task_path=stored["task_path"],
        queue_name=stored["queue_name"],
        priority=stored["priority"],
        state=state,
        is_late=waits and due_at is not None and due_at < late_before,
        at=_time(stored, state),
        enqueued_at=stored["enqueued_at"],
        due_at=due_at,
        error_class=error_class,
        error_message=message.partition("\n")[0][:MESSAGE_CHARACTERS],
        worker=worker,
        process_id=process_id,
        attempts=stored["attempts"] + is_running,
        retries=stored["retries"],
        progress=_progress(stored["progress"]),
        concurrency_key=stored["concurrency_key"] or "",
        arguments=short_text(stored["some_arguments"], stored["characters"], stored["task_path"]),
    )


def _due_at(stored: Mapping[str, Any]) -> datetime | None:
    times = (stored["scheduled_at"] or stored["enqueued_at"], stored["last_attempted_at"])
    known = [time for time in times if time is not None]
    due_at: datetime | None = stored["due_at"] or max(known, default=None)
    return due_at


def _time(stored: Mapping[str, Any], state: JobState) -> datetime | None:
    column = {
        JobState.FINISHED: "finished_at",
        JobState.RUNNING: "claimed_at",
        JobState.SCHEDULED: "due_at",
        JobState.RETRYING: "due_at",
        JobState.READY: "enqueued_at",
        JobState.BLOCKED: "enqueued_at",
    }.get(state, "failed_at")
    time: datetime | None = stored[column]
    return time


def _error(stored: Mapping[str, Any]) -> tuple[str, str]:
    """Return the class and the message of the last error, of a task that has not finished."""
    if stored["failed_kind"] is not None:
        return stored["exception_class"], stored["message"]
    if stored["last_errors"]:
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            error = json.loads(stored["last_errors"].rpartition("\n")[2])
            return str(error["exception_class_path"]), str(error.get("message", ""))
    return "", ""


def _progress(text: str | None) -> Progress | None:
    try:
        return load_progress(text)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
