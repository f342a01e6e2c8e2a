"""Tasks as values of JSON. The keys are stable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from steady_queue.monitoring.jobs.detail import JobDetail
    from steady_queue.monitoring.jobs.rows import JobRow
    from steady_queue.monitoring.jobs.timeline import TimelineEntry


def row_as_json(row: JobRow) -> dict[str, Any]:
    """One line of a list. Times are in ISO 8601, in UTC."""
    progress = row.progress
    return {
        "id": str(row.id),
        "task": row.task_path,
        "queue": row.queue_name,
        "priority": row.priority,
        "state": str(row.state),
        "is_late": row.is_late,
        "at": _time(row.at),
        "enqueued_at": _time(row.enqueued_at),
        "due_at": _time(row.due_at),
        "error_class": row.error_class,
        "error_message": row.error_message,
        "worker": row.worker,
        "process_id": None if row.process_id is None else str(row.process_id),
        "attempts": row.attempts,
        "concurrency_key": row.concurrency_key,
        "progress": None
        if progress is None
        else {"done": progress.done, "total": progress.total, "message": progress.message},
        "arguments": row.arguments,
    }


def detail_as_json(detail: JobDetail) -> dict[str, Any]:
    """Everything of one task; `arguments` is a list here."""
    return {
        **row_as_json(detail.row),
        "lane": detail.lane,
        "backend": detail.backend,
        "concurrency_limit": detail.concurrency_limit,
        "unique_key": detail.unique_key,
        "expires_at": _time(detail.expires_at),
        "started_at": _time(detail.started_at),
        "ended_at": _time(detail.ended_at),
        "arguments": [{"name": one.name, "text": one.text, "is_cut": one.is_cut} for one in detail.arguments.values],
        "arguments_problem": detail.arguments.problem,
        "result": detail.result,
        "metadata": detail.metadata,
        "saved": detail.saved,
        "recurring_key": detail.recurring_key,
        "recurring_run_at": _time(detail.recurring_run_at),
        "waiting": [{"kind": reason.kind, "text": reason.text} for reason in detail.waiting],
        "timeline": [_entry_as_json(entry) for entry in detail.timeline],
        "actions": list(detail.actions),
    }


def _entry_as_json(entry: TimelineEntry) -> dict[str, Any]:
    attempt = entry.attempt
    return {
        "kind": entry.kind,
        "at": _time(entry.at),
        "text": entry.text,
        "attempt": None
        if attempt is None
        else {
            "number": attempt.number,
            "ending": attempt.ending,
            "worker": attempt.worker,
            "started_at": _time(attempt.started_at),
            "ended_at": _time(attempt.ended_at),
            "error_class": attempt.error_class,
            "message": attempt.message,
            "traceback": attempt.traceback,
            "log": [{"at": _time(line.at), "message": line.message} for line in attempt.log],
        },
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
