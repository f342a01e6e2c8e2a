"""Descriptions of tasks and queues, as people give them, checked before anything is done.

Moments as people type them: a date, a time, or a span of time before now such as `7d` or `12h`.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from steady_queue.store.job import Status
from steady_queue.store.names import NAME_LENGTH, explain_bad_queue_name, explain_unstorable
from steady_queue.store.operations.bulk_actions import JobFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steady_queue.jobs.compat import Task

_SPAN = re.compile(r"(\d+)\s*([smhdw])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def before(text: str) -> datetime | timedelta:
    """The moment, or how long ago; a date is its midnight. Without a zone, both are the project's."""
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


#: What can be discarded, in the order in which jobs move through it, so that none is missed.
DISCARDABLE = (Status.SCHEDULED, Status.BLOCKED, Status.READY, Status.FAILED)


def described(
    queue: str | None = None,
    task: Task[..., Any] | str | None = None,
    exception: type[BaseException] | str | None = None,
    failed_before: datetime | None = None,
    failed_after: datetime | None = None,
) -> JobFilter:
    """The description in the store's words. What can never be stored describes nothing, and is refused."""
    return JobFilter(
        queue=None if queue is None else a_queue(queue),
        task_path=None if task is None else a_path(task),
        exception_class=None if exception is None else _an_exception(exception),
        failed_before=None if failed_before is None else a_moment(failed_before),
        failed_after=None if failed_after is None else a_moment(failed_after),
    )


def a_queue(name: str) -> str:
    """The name of a queue."""
    return _a_name("queue", name)


def a_usable_queue(name: str) -> str:
    """The name of a queue that tasks can be enqueued in."""
    if reason := explain_bad_queue_name(a_queue(name)):
        raise ValueError(f"the queue {name!r} {reason}")
    return name


def a_path(task: Task[..., Any] | str) -> str:
    """The path of a task, given itself or as a text."""
    return _a_name("task", getattr(task, "module_path", task))


def a_moment(moment: datetime) -> datetime:
    """An instant; without a time zone it is the project's."""
    if not isinstance(moment, datetime):
        raise ValueError(f"a datetime is needed, not {moment!r}")
    aware = moment if timezone.is_aware(moment) else timezone.make_aware(moment, timezone.get_default_timezone())
    try:
        return aware.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"out of range: {moment!r}") from None


def some_statuses(names: Sequence[str], which: JobFilter) -> list[Status]:
    """Where the tasks stand that are to be discarded."""
    if unknown := [name for name in names if name not in DISCARDABLE]:
        raise ValueError(f"only {', '.join(DISCARDABLE)} tasks can be discarded, not {', '.join(map(str, unknown))}")
    if not names:
        raise ValueError(f"say which tasks to discard: {', '.join(DISCARDABLE)}")
    about_failures = (which.exception_class, which.failed_before, which.failed_after)
    if any(value is not None for value in about_failures) and set(names) != {Status.FAILED}:
        raise ValueError("exception, failed_before and failed_after describe failed tasks only")
    return [status for status in DISCARDABLE if status in names]


def _a_name(what: str, name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the {what} must be a text, not {name!r}")
    if reason := explain_unstorable(name, NAME_LENGTH):
        raise ValueError(f"the name of the {what} {reason}")
    return name


def _an_exception(kind: object) -> str:
    if isinstance(kind, str):
        return kind
    if not isinstance(kind, type):
        raise ValueError(f"the exception must be a class or its path, not {kind!r}")
    return f"{kind.__module__}.{kind.__qualname__}"
