"""Check what callers pass to the actions, before anything is done, and build the store's filters from it.

The command line passes times as text: a date, a time, or a time span before now such as `7d` or `12h`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from django.utils import timezone

from steady_queue.store.job import Status
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable
from steady_queue.store.operations.actions.bulk_actions import JobFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.compat import Task

_SPAN = re.compile(r"(\d+)\s*([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

#: The statuses of tasks that can be discarded, in the order in which jobs move through them, so that none is missed.
DISCARDABLE = (Status.SCHEDULED, Status.BLOCKED, Status.READY, Status.FAILED)


class FilterOptions(TypedDict, total=False):
    """The keyword arguments of `retry_where` and `discard_where`; an option that is left out matches every task."""

    queue: str | None
    task: Task[..., Any] | str | None
    exception: type[BaseException] | str | None
    failed_before: datetime | None
    failed_after: datetime | None


def parse_before(text: str) -> datetime | timedelta:
    """Return a point in time, or a time span before now. A date is its midnight; the default zone is the project's."""
    given = text.strip()
    try:
        if found := _SPAN.fullmatch(given):
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        if len(given) == len("2026-01-31"):
            moment = datetime.combine(date.fromisoformat(given), time())
        else:
            moment = datetime.fromisoformat(given)
        if timezone.is_naive(moment):
            moment = timezone.make_aware(moment, timezone.get_default_timezone())
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a date (2026-01-31), a time or a span such as 7d or 12h, not {text!r}") from None


def build_filter(
    queue: str | None = None,
    task: Task[..., Any] | str | None = None,
    exception: type[BaseException] | str | None = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> JobFilter:
    """Return the store's filter. A value that can never be stored would match nothing, and is refused."""
    return JobFilter(
        queue=None if queue is None else check_queue_name(queue),
        task_path=None if task is None else task_path_of(task),
        exception_class=None if exception is None else _exception_path(exception),
        failed_before=None if failed_before is None else to_utc("failed_before", failed_before),
        failed_after=None if failed_after is None else to_utc("failed_after", failed_after),
    )


def check_queue_name(name: str) -> str:
    """Return the name of a queue, or raise ValueError."""
    return _check_name("queue", name)


def check_usable_queue_name(name: str) -> str:
    """Return the name of a queue that tasks can be enqueued in, or raise ValueError."""
    if reason := explain_bad_queue_name(check_queue_name(name)):
        raise ValueError(f"the queue {name!r} {reason}")
    return name


def task_path_of(task: Task[..., Any] | str) -> str:
    """Return the dotted path of a task, which is passed as itself or as its path."""
    return _check_name("task", getattr(task, "module_path", task))


def to_utc(what: str, moment: datetime) -> datetime:
    """Return the datetime in UTC; a naive one is in the project's time zone."""
    if not isinstance(moment, datetime):
        raise ValueError(f"{what} must be a datetime, not {type(moment).__name__}")
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment, timezone.get_default_timezone())
    try:
        return aware.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{what} is out of range: {moment!r}") from None


def parse_statuses(names: Sequence[str], job_filter: JobFilter) -> list[Status]:
    """Return the statuses of the tasks to be discarded."""
    if unknown := [name for name in names if name not in DISCARDABLE]:
        raise ValueError(f"only {', '.join(DISCARDABLE)} tasks can be discarded, not {', '.join(map(str, unknown))}")
    if not names:
        raise ValueError(f"say which tasks to discard: {', '.join(DISCARDABLE)}")
    of_failures = (job_filter.exception_class, job_filter.failed_before, job_filter.failed_after)
    if any(value is not None for value in of_failures) and set(names) != {Status.FAILED}:
        raise ValueError("exception, failed_before and failed_after apply to failed tasks only")
    return [status for status in DISCARDABLE if status in names]


def _check_name(what: str, name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the {what} must be a string, not {type(name).__name__}")
    if reason := explain_unstorable(name, NAME_LENGTH):
        raise ValueError(f"the name of the {what} {reason}")
    return name


def _exception_path(kind: object) -> str:
    if isinstance(kind, str):
        return kind
    if not isinstance(kind, type):
        raise ValueError(f"the exception must be a class or its dotted path, not {kind!r}")
    return f"{kind.__module__}.{kind.__qualname__}"
