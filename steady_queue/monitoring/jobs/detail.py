"""JobDetail: everything that the page of one task shows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db.models.functions import Left

from steady_queue.db.aliases import queue_alias
from steady_queue.jobs.results.old_arguments import load_old_texts
from steady_queue.models import Cancellation, RecurringExecution
from steady_queue.monitoring.jobs.argument_text import PARSED_CHARACTERS, ArgumentTexts, describe_arguments
from steady_queue.monitoring.jobs.cut_json import load_beginning
from steady_queue.monitoring.jobs.redaction import redact
from steady_queue.monitoring.jobs.rows import build_row, find_process_names, read_columns
from steady_queue.monitoring.jobs.timeline import CancelRequestRow, build_timeline
from steady_queue.monitoring.jobs.unique_key_text import show_unique_key
from steady_queue.monitoring.jobs.waiting_reasons import find_reasons
from steady_queue.monitoring.states import JobState
from steady_queue.store.ids import parse_uuid
from steady_queue.store.job import lane_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from steady_queue.monitoring.jobs.rows import JobRow
    from steady_queue.monitoring.jobs.timeline import TimelineEntry
    from steady_queue.monitoring.jobs.waiting_reasons import WaitingReason

#: Characters of a text column that are read.
TEXT_CHARACTERS = 20_000
#: Long columns, and how much is read of each.
_TEXTS = {
    "arguments": PARSED_CHARACTERS,
    "errors": PARSED_CHARACTERS,
    "log": PARSED_CHARACTERS,
    "old_arguments": PARSED_CHARACTERS,
    "return_value": TEXT_CHARACTERS,
    "metadata": TEXT_CHARACTERS,
    "headers": TEXT_CHARACTERS,
    "saved": TEXT_CHARACTERS,
}
_MORE = ("backend", "expires_at", "started_at", "concurrency_limit", "unique_key")
#: What can be done with a task in each state.
ACTIONS: dict[JobState, tuple[str, ...]] = {
    **dict.fromkeys((JobState.FAILED, JobState.EXHAUSTED, JobState.LOST), ("retry", "edit", "discard")),
    **dict.fromkeys((JobState.CANCELLED, JobState.EXPIRED), ("retry", "edit", "discard")),
    **dict.fromkeys(
        (JobState.SCHEDULED, JobState.RETRYING, JobState.BLOCKED, JobState.LATE), ("run_now", "cancel", "discard")
    ),
    JobState.READY: ("cancel", "discard"),
    JobState.RUNNING: ("cancel", "stack"),
}


def states_for(action: str) -> frozenset[JobState]:
    """The states of the tasks with which this can be done."""
    return frozenset(state for state, actions in ACTIONS.items() if action in actions)


class OldArgumentTexts(NamedTuple):
    """Arguments that were replaced when the task was retried by hand."""

    replaced_at: datetime
    arguments: ArgumentTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """A task with its life. Long texts are cut, and secrets in JSON are redacted."""

    row: JobRow
    #: What can be done with it: retry, edit (retry with other arguments), discard, run_now, cancel, stack.
    actions: tuple[str, ...]
    lane: str
    backend: str
    concurrency_limit: int | None
    #: Words if it is the digest of all arguments.
    unique_key: str
    expires_at: datetime | None
    #: When its first attempt began.
    started_at: datetime | None
    #: When it finished, or failed for good.
    ended_at: datetime | None
    arguments: ArgumentTexts
    old_arguments: tuple[OldArgumentTexts, ...]
    timeline: tuple[TimelineEntry, ...]
    waiting: tuple[WaitingReason, ...]
    #: Set while a running task is asked to stop.
    cancel_request: CancelRequestRow | None
    #: JSON; None if the task has not finished, or returned None.
    result: str | None
    metadata: str | None
    #: What an attempt saved for the next one.
    saved: str | None
    headers: str | None
    #: The recurring task whose tick this is, and the tick.
    recurring_key: str
    recurring_run_at: datetime | None
    #: The columns as they are stored, as text, for "raw data".
    raw: Mapping[str, str]


def find_detail(job_id: UUID | str) -> JobDetail | None:
    """Return a task by its id; None if there is none. At most ten queries."""
    id_ = parse_uuid(job_id)
    if id_ is None:
        return None
    texts = {f"its_{name}": Left(name, limit) for name, limit in _TEXTS.items()}
    found = read_columns([id_], *_MORE, **texts)
    return _build(found[0]) if found else None


def _build(found: Mapping[str, Any]) -> JobDetail:
    stored = {**found, **{name: found[f"its_{name}"] for name in _TEXTS}}
    stored["unique_key"] = _unique_key(stored)
    id_, process_id = stored["id"], stored["process_id"]
    row = build_row(stored, find_process_names({process_id} - {None}))
    request = _cancel_request(id_) if row.state is JobState.RUNNING else None
    tick = RecurringExecution.objects.using(queue_alias()).filter(job_id=id_).first()
    return JobDetail(
        row=row,
        actions=ACTIONS.get(row.state, ()),
        lane=lane_name(stored["lane"]),
        backend=stored["backend"],
        concurrency_limit=stored["concurrency_limit"],
        unique_key=stored["unique_key"] or "",
        expires_at=stored["expires_at"],
        started_at=stored["started_at"] or stored["claimed_at"],
        ended_at=stored["finished_at"] or stored["failed_at"],
        arguments=describe_arguments(stored["arguments"], row.task_path, stored["characters"]),
        old_arguments=_old_arguments(stored["old_arguments"], row.task_path),
        timeline=build_timeline(stored, row.state, row.worker, request),
        waiting=find_reasons(row, stored["lane"], stored["now"]),
        cancel_request=request,
        result=redacted_json(stored["return_value"]),
        metadata=redacted_json(stored["metadata"]),
        saved=redacted_json(stored["saved"]),
        headers=redacted_json(stored["headers"]),
        recurring_key=tick.task_key if tick else "",
        recurring_run_at=tick.run_at if tick else None,
        raw=_raw(stored),
    )


def _unique_key(stored: Mapping[str, Any]) -> str | None:
    key: str | None = stored["unique_key"]
    text = stored["arguments"] if stored["characters"] <= PARSED_CHARACTERS else None
    return None if key is None else show_unique_key(key, stored["task_path"], text)


def redacted_json(text: str | None) -> str | None:
    """Return JSON, of which only the beginning may be given, on several lines and without secrets."""
    if text is None:
        return None
    try:
        value = json.loads(text) if len(text) < TEXT_CHARACTERS else load_beginning(text)
        return json.dumps(redact(value), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        # Its secrets cannot be found, so it is not shown.
        return "(not readable)"


def _old_arguments(text: str | None, task_path: str) -> tuple[OldArgumentTexts, ...]:
    try:
        old = load_old_texts(text)
        return tuple(OldArgumentTexts(one.replaced_at, describe_arguments(one.arguments, task_path)) for one in old)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def _cancel_request(job_id: UUID) -> CancelRequestRow | None:
    found = Cancellation.objects.using(queue_alias()).filter(job_id=job_id).first()
    return None if found is None else CancelRequestRow(found.requested_by, found.reason, found.requested_at)


def _raw(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns that are neither long nor shown in another way."""
    hidden = {*_TEXTS, "some_arguments", "last_errors", "message", "characters", "now"}
    names = [name for name in stored if name not in hidden and not name.startswith("its_")]
    return {name.replace("__", "."): str(stored[name]) for name in names if stored[name] is not None}
