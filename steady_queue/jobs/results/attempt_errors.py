"""The errors of a job's attempts: the class, and how the stored ones are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import timezone

from steady_queue.errors import DeserializationError
from steady_queue.jobs.compat import TaskError

if TYPE_CHECKING:
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import ErrorReport

#: Stands for an exception class, or for a whole column, that cannot be read.
UNREADABLE = f"{DeserializationError.__module__}.{DeserializationError.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptError(TaskError):
    """The framework's TaskError, with what is known of the attempt; None for a task that failed without one."""

    message: str = ""
    #: The first attempt is 1.
    attempt: int | None = None
    worker_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None


def of_attempt(claim: Claim, error: ErrorReport, worker_id: str) -> AttemptError:
    """Return the error of an attempt that ends now."""
    return AttemptError(
        exception_class_path=error.exception_class,
        traceback=error.traceback,
        message=error.message,
        attempt=claim.attempts + 1,
        worker_id=worker_id,
        started_at=as_django_shows(claim.claimed_at),
        ended_at=as_django_shows(datetime.now(UTC)),
    )


def unreadable_error(why: str) -> AttemptError:
    """Return the error that stands for something that cannot be read."""
    return AttemptError(exception_class_path=UNREADABLE, traceback=why)


def load_errors(text: str | None) -> list[TaskError]:
    """Return the stored errors, one per line. Consecutive unreadable lines become one entry with them."""
    errors: list[TaskError] = []
    reports = [(line, _report(line)) for line in lines_of(text)]
    for are_readable, group in groupby(reports, lambda pair: pair[1] is not None):
        if are_readable:
            errors += [_error(line, report or {}) for line, report in group]
        else:
            stored = "\n".join(line for line, _ in group)
            errors.append(
                unreadable_error(f"the column 'errors' of the task has a part that cannot be read: {stored:.500}")
            )
    return errors


def lines_of(text: str | None) -> list[str]:
    """Return the lines of a column that has one value on each."""
    return text.split("\n") if text else []


def as_django_shows(moment: datetime | None) -> datetime | None:
    """Return an instant as Django shows it: naive local time when the project does not use time zones."""
    if not isinstance(moment, datetime):
        return None
    return moment if settings.USE_TZ else timezone.make_naive(moment, timezone.get_default_timezone())


def _report(line: str) -> dict[str, Any] | None:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def _error(line: str, report: dict[str, Any]) -> AttemptError:
    path, traceback, attempt = (report.get(name) for name in ("exception_class_path", "traceback", "attempt"))
    return AttemptError(
        exception_class_path=path if isinstance(path, str) else UNREADABLE,
        traceback=traceback if isinstance(traceback, str) else f"there is no traceback in: {line:.500}",
        message=_text(report, "message") or "",
        attempt=attempt if isinstance(attempt, int) else None,
        worker_id=_text(report, "worker_id"),
        started_at=_time(report, "started_at"),
        ended_at=_time(report, "ended_at"),
    )


def _text(report: dict[str, Any], name: str) -> str | None:
    value = report.get(name)
    return value if isinstance(value, str) else None


def _time(report: dict[str, Any], name: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(_text(report, name) or "")
        return as_django_shows(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None
