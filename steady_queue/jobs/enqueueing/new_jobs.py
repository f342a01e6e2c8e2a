"""Build the rows of new jobs from calls of tasks. Every error of a call is raised here, before anything is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone, translation

import steady_queue
from steady_queue import arguments
from steady_queue.errors import ArgumentError
from steady_queue.jobs.compat import InvalidTask, task_backends
from steady_queue.jobs.definition.expiry import expires_at
from steady_queue.jobs.definition.signatures import check_call, fitting_shapes
from steady_queue.jobs.definition.task import lane_of
from steady_queue.jobs.json_values import dump_metadata
from steady_queue.store.ids import new_job_ids
from steady_queue.store.job import NewJob

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steady_queue.jobs.compat import Task
    from steady_queue.jobs.definition.task import TaskCall

#: asyncpg reads the last datetime that Python knows as infinity.
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
NO_DEFAULTS: Mapping[str, Any] = {}


def build_jobs(
    calls: Sequence[TaskCall], *, max_bytes: int = arguments.MAX_BYTES, defaults: Mapping[str, Any] = NO_DEFAULTS
) -> list[NewJob]:
    """Return the rows of the calls, in order.

    `max_bytes` limits the arguments of each call; `defaults` are the options of the backend.
    """
    now = _now()
    context_headers = _headers()
    checks_arguments = steady_queue.check_arguments
    seen: dict[int, tuple[Any, ...]] = {}
    jobs = []
    for id_, (task, args, kwargs) in zip(new_job_ids(len(calls)), calls, strict=True):
        known = seen.get(id(task))
        if known is None:
            known = seen[id(task)] = _options(task, context_headers, defaults, now)
        queue_name, path, priority, lane, backend, run_after, headers, concurrency, fitting, unique, more = known
        if checks_arguments and (len(args), *kwargs) not in fitting:
            check_call(task, args, kwargs)
        try:
            text = arguments.dumps(args, kwargs, limit=max_bytes)
        except ArgumentError as error:
            raise ArgumentError(f"{path}(): {error}") from error.__cause__
        if run_after is None and concurrency is None and headers is None:
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now))
        elif concurrency is None:
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now, run_after, headers))
        else:
            key = concurrency.key_for(path, args, kwargs)
            limits = (key, concurrency.to, concurrency.on_conflict, concurrency.overrun_after)
            jobs.append(NewJob(id_, queue_name, path, text, priority, lane, backend, now, run_after, headers, *limits))
        if unique is not None:
            key = unique.key_for(task, args, kwargs)
            jobs[-1] = jobs[-1]._replace(unique_key=key, unique_until=unique.rule.until)
        if more is not None:
            jobs[-1] = jobs[-1]._replace(**more)
    return jobs


def build_call(call: TaskCall) -> NewJob:
    """Return the row of a call, as its backend would enqueue it."""
    backend = task_backends[call.task.backend]
    max_bytes = getattr(backend, "max_arguments_bytes", arguments.MAX_BYTES)
    return build_jobs([call], max_bytes=max_bytes, defaults=backend.options)[0]


async def build_jobs_from_text(task: Task[..., Any], text: str, count: int) -> list[NewJob]:
    """Return `count` rows of the same call of a task, whose arguments are serialized already."""
    now = _now()
    options = _options(task, _headers(), task_backends[task.backend].options, now)
    queue_name, path, priority, lane, backend, run_after, headers, concurrency, _, unique, more = options
    limits: tuple[Any, ...] = ()
    args, kwargs = ([], {}) if concurrency is None and unique is None else await arguments.aloads(text)
    if unique is not None:
        more = {**(more or {}), "unique_key": unique.key_for(task, args, kwargs), "unique_until": unique.rule.until}
    if concurrency is not None:
        key = concurrency.key_for(path, args, kwargs)
        limits = (key, concurrency.to, concurrency.on_conflict, concurrency.overrun_after)
    call = (queue_name, path, text, priority, lane, backend, now, run_after, headers, *limits)
    return [NewJob(id_, *call)._replace(**(more or {})) for id_ in new_job_ids(count)]


def _options(
    task: Task[..., Any], headers: dict[str, object], defaults: Mapping[str, Any], now: datetime
) -> tuple[Any, ...]:
    """The columns that all calls of a task have in common; last, those that few tasks have, or None."""
    run_after = _as_utc(task.run_after)
    more: dict[str, Any] = {}
    if (expiry := expires_at(task, defaults, now, run_after)) is not None:
        more["expires_at"] = expiry
    if getattr(task, "metadata", None) is not None:
        more["metadata"] = _metadata(task)
    if call_headers := getattr(task, "call_headers", None):
        headers = {**headers, **call_headers}
    return (
        task.queue_name,
        task.module_path,
        int(task.priority),
        lane_of(task.func),
        task.backend,
        run_after,
        json.dumps(headers) if headers else None,
        getattr(task, "concurrency", None),
        fitting_shapes(task),
        getattr(task, "unique", None),
        more or None,
    )


def _metadata(task: Task[..., Any]) -> str:
    try:
        return dump_metadata(task.metadata)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise InvalidTask(f"{task.module_path}: {error}") from None


def _now() -> datetime:
    # In whole milliseconds: SQLite's clock has no more, and no job may seem to start before it was enqueued.
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _as_utc(run_after: datetime | None) -> datetime | None:
    if run_after is None:
        return None
    try:
        is_aware = timezone.is_aware(run_after)
        aware = run_after if is_aware else timezone.make_aware(run_after, timezone.get_default_timezone())
        instant = aware.astimezone(UTC)
    except OverflowError:
        raise InvalidTask(f"run_after is out of range: {run_after!r}") from None
    # MySQL begins with the year 1000.
    if instant.year < 1000 or instant >= END_OF_TIME:
        raise InvalidTask(f"run_after is out of range: {run_after!r}")
    return instant


def _headers() -> dict[str, object]:
    """The enqueuer's language and time zone, where they differ from the project's."""
    headers: dict[str, object] = {}
    if (language := translation.get_language()) != settings.LANGUAGE_CODE:
        headers["locale"] = language
    current: tzinfo = timezone.get_current_timezone()
    # A zone of the IANA database by its key; any other zone by its offset in minutes.
    zone = "UTC" if current is UTC else getattr(current, "key", None)
    if zone is None:
        headers["timezone"] = int((current.utcoffset(None) or timedelta()).total_seconds() // 60)
    elif zone != settings.TIME_ZONE:
        headers["timezone"] = zone
    return headers
