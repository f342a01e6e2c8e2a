"""The life of a task: what is stored of each of its attempts, and what happened around them, in order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from django.conf import settings
from django.utils import timezone

from steady_queue.errors import TaskCancelled, TaskExpired
from steady_queue.jobs.results.attempt_errors import AttemptError, lines_of, load_errors
from steady_queue.jobs.results.old_arguments import load_old_texts
from steady_queue.jobs.running.reports import load_log
from steady_queue.monitoring.jobs.current_state import LOST_CLASSES
from steady_queue.monitoring.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from steady_queue.jobs.running.reports import LogLine

#: Characters of a traceback; its end is kept, which has the error.
TRACEBACK_CHARACTERS = 20_000
#: Attempts that are shown, the newest.
MAX_SHOWN_ATTEMPTS = 50
_CANCELLED, _EXPIRED = (f"{kind.__module__}.{kind.__qualname__}" for kind in (TaskCancelled, TaskExpired))

Kind = Literal[
    "enqueued",
    "scheduled",
    "not recorded",
    "attempt",
    "arguments replaced",
    "retried by hand",
    "cancel requested",
    "cancelled",
    "expired",
    "failed",
    "next",
]
Ending = Literal["running", "finished", "failed", "lost", "cancelled", "interrupted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a task. What is not stored of it is empty or None."""

    #: The first attempt is 1.
    number: int
    ending: Ending
    worker: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error_class: str = ""
    message: str = ""
    traceback: str = ""
    log: tuple[LogLine, ...] = ()
    #: The database's time when this was read, of an attempt that runs.
    now: datetime | None = None

    @property
    def duration_seconds(self) -> float | None:
        """How long it took; of a running attempt, how long it has been running."""
        ended_at = self.now if self.ending == "running" else self.ended_at
        if self.started_at is None or ended_at is None:
            return None
        return max(0.0, (ended_at - self.started_at).total_seconds())


class TimelineEntry(NamedTuple):
    """Something that happened to a task, or will. Its time is None if it is not stored."""

    kind: Kind
    at: datetime | None
    text: str
    attempt: Attempt | None = None


def build_timeline(
    stored: Mapping[str, Any], state: JobState, worker: str, request: CancelRequestRow | None = None
) -> tuple[TimelineEntry, ...]:
    """Return the entries, the oldest first. `stored` has the columns of detail.py."""
    entries = [TimelineEntry("enqueued", stored["enqueued_at"], f"Enqueued in the queue {stored['queue_name']}")]
    if stored["scheduled_at"] is not None:
        entries.append(TimelineEntry("scheduled", stored["scheduled_at"], "Scheduled for this time"))
    entries += _ended_entries(stored)
    if state in (JobState.RUNNING, JobState.FINISHED):
        entries.append(_last_attempt(stored, state, worker))
    entries = _with_logs(entries, stored)
    entries = _with_manual_retry(entries, stored, state)
    entries = _with_replaced_arguments(entries, stored)
    if request is not None:
        by = f" by {request.by}" if request.by else ""
        reason = f": {request.reason}" if request.reason else ""
        entries.append(TimelineEntry("cancel requested", request.at, f"Asked to stop{by}{reason}"))
    if (due_at := stored["due_at"]) is not None and stored["attempts"]:
        text = f"Attempt {stored['attempts'] + 1:,} is due"
        entries.append(TimelineEntry("next", due_at, text))
    return tuple(entries)


class CancelRequestRow(NamedTuple):
    """A running task that is asked to stop."""

    by: str
    reason: str
    at: datetime


# -- attempts ---------------------------------------------------------------------------------------------------------


def _ended_entries(stored: Mapping[str, Any]) -> list[TimelineEntry]:
    """Return the attempts and endings of which errors are stored."""
    errors = load_errors(stored["errors"])
    entries = [_error_entry(error, stored) for error in errors if isinstance(error, AttemptError)]
    if entries and entries[-1].at is None and stored["failed_at"] is not None:
        entries[-1] = entries[-1]._replace(at=stored["failed_at"])
    entries = entries[-MAX_SHOWN_ATTEMPTS:]
    known = [entry.attempt.number for entry in entries if entry.attempt is not None]
    ended = stored["attempts"] - (stored["finished_at"] is not None)
    missing = (min(known) if known else ended + 1) - 1
    if missing > 0:
        text = "Attempt 1 is" if missing == 1 else f"Attempts 1 to {missing:,} are"
        entries.insert(0, TimelineEntry("not recorded", None, f"{text} no longer recorded"))
    return entries


def _error_entry(error: AttemptError, stored: Mapping[str, Any]) -> TimelineEntry:
    path = error.exception_class_path
    if error.attempt is None:
        text = error.message or path
        kind: Kind = "cancelled" if path == _CANCELLED else "expired" if path == _EXPIRED else "failed"
        return TimelineEntry(kind, None, text[:1].upper() + text[1:])
    attempt = Attempt(
        number=error.attempt,
        ending="lost" if path in LOST_CLASSES else "cancelled" if path == _CANCELLED else "failed",
        worker=error.worker_id or "",
        started_at=_aware(error.started_at),
        ended_at=_aware(error.ended_at),
        error_class=path,
        message=error.message,
        traceback=_cut_beginning(error.traceback),
    )
    return TimelineEntry("attempt", attempt.started_at, f"Attempt {attempt.number:,} {attempt.ending}", attempt)


def _last_attempt(stored: Mapping[str, Any], state: JobState, worker: str) -> TimelineEntry:
    """Return the attempt that runs, or with which the task finished."""
    is_running = state is JobState.RUNNING
    attempt = Attempt(
        number=stored["attempts"] + is_running,
        ending="running" if is_running else "finished",
        worker=worker if is_running else (lines_of(stored["worker_ids"]) or [""])[-1],
        started_at=stored["claimed_at"] if is_running else stored["last_attempted_at"],
        ended_at=stored["finished_at"],
        now=stored["now"] if is_running else None,
    )
    text = f"Attempt {attempt.number:,} {'runs' if is_running else 'finished'}"
    return TimelineEntry("attempt", attempt.started_at, text, attempt)


def _with_logs(entries: list[TimelineEntry], stored: Mapping[str, Any]) -> list[TimelineEntry]:
    """Add to each attempt the lines that it logged; an attempt of which only lines are known gets its own entry."""
    lines: dict[int, list[LogLine]] = {}
    for line in load_log(stored["log"]):
        lines.setdefault(line.attempt, []).append(line)
    found: list[TimelineEntry] = []
    for entry in entries:
        if entry.attempt is not None and (its := lines.pop(entry.attempt.number, None)):
            entry = entry._replace(attempt=replace(entry.attempt, log=tuple(its)))
        found.append(entry)
    for number, its in sorted(lines.items())[-MAX_SHOWN_ATTEMPTS:]:
        # It was interrupted, or its process has been lost and the error is no longer stored.
        attempt = Attempt(number=number, ending="interrupted", started_at=its[0].at, log=tuple(its))
        entry = TimelineEntry("attempt", its[0].at, f"Attempt {number:,} logged", attempt)
        found.insert(_index_at(found, its[0].at), entry)
    return found


# -- what people did --------------------------------------------------------------------------------------------------


def _with_manual_retry(entries: list[TimelineEntry], stored: Mapping[str, Any], state: JobState) -> list[TimelineEntry]:
    """Add the last retry by hand: it sets the number of automatic retries to zero, which shows where it was."""
    has_failed = stored["failed_kind"] is not None
    failures = stored["attempts"] - (state is JobState.FINISHED)
    after = failures - stored["retries"] - has_failed
    if after < 1:
        return entries
    numbers = [entry.attempt.number if entry.attempt else 0 for entry in entries]
    index = next((at for at, number in enumerate(numbers) if number > after), len(entries))
    entry = TimelineEntry("retried by hand", None, f"Retried by hand after attempt {after:,}")
    return [*entries[:index], entry, *entries[index:]]


def _with_replaced_arguments(entries: list[TimelineEntry], stored: Mapping[str, Any]) -> list[TimelineEntry]:
    try:
        old = load_old_texts(stored["old_arguments"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return entries
    found = list(entries)
    for one in old:
        entry = TimelineEntry("arguments replaced", _aware(one.replaced_at), "Retried by hand with other arguments")
        index = _index_at(found, entry.at)
        # The retry whose time is not known is this one.
        same = [near for near in (index - 1, index) if 0 <= near < len(found) and found[near].kind == "retried by hand"]
        found[slice(same[0], same[0] + 1) if same else slice(index, index)] = [entry]
    return found


# -- times ------------------------------------------------------------------------------------------------------------


def _index_at(entries: Sequence[TimelineEntry], at: datetime | None) -> int:
    """Return where an entry of this time belongs: after the last entry that is known to be earlier."""
    if at is None:
        return len(entries)
    return 1 + max((index for index, one in enumerate(entries) if one.at is not None and one.at <= at), default=-1)


def _aware(moment: datetime | None) -> datetime | None:
    if moment is None or moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC) if settings.USE_TZ else timezone.make_aware(moment)


def _cut_beginning(text: str) -> str:
    return text if len(text) <= TRACEBACK_CHARACTERS else f"…{text[1 - TRACEBACK_CHARACTERS :]}"
