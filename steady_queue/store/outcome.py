"""The outcome of a claim, and the verdict of the database on it.

An exception as text that can be stored: for any exception, this must not fail and must not be huge.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.events.tracebacks import MESSAGE_LENGTH, cut, message_of, traceback_of
from steady_queue.store.job import FailureKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from steady_queue.store.job import Claim

#: The number of errors that are kept of a job, and the number of its characters; the newest are kept.
MAX_ERRORS, MAX_ERRORS_CHARACTERS = 20, 200_000
#: From this number of characters on, the oldest of the names of a job's workers is dropped when one is added.
MAX_WORKER_IDS_CHARACTERS = 2_000
#: Delays are cut to this: 100 years.
MAX_DELAY_SECONDS = 100 * 365.25 * 86_400.0
#: Attempts are counted up to this number, the largest that the column can store on every database.
MAX_ATTEMPTS = 2_147_483_647


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An exception as text that any database can store."""

    exception_class: str
    message: str
    traceback: str

    def as_line(self, **more: object) -> str:
        """The report as one line of ASCII JSON, which is appended to the job's errors."""
        report = {"exception_class_path": self.exception_class, "message": self.message, "traceback": self.traceback}
        return json.dumps({**report, **more})


@dataclass(frozen=True, slots=True)
class Finished:
    """The task returned; `value` is its JSON, None for None."""

    claim: Claim
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The task raised an exception, or the process that ran it died."""

    claim: Claim
    error: ErrorReport
    #: Whether the task and its arguments could be loaded. If not, the framework's signals cannot be sent.
    is_loadable: bool = False
    #: Whether a handler emits the framework's log line for it.
    is_logged: bool = False
    kind: FailureKind = FailureKind.FAILED
    #: Whether the task was started. One that was cancelled or expired before has no attempt more.
    is_attempt: bool = True


@dataclass(frozen=True, slots=True)
class Retried:
    """The attempt failed, and the job is scheduled for the next one, without a slot."""

    claim: Claim
    error: ErrorReport
    delay_seconds: float
    #: As in Failed.
    is_loadable: bool = False
    is_logged: bool = False


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The job is scheduled again, without a slot. No attempt is counted."""

    claim: Claim
    delay_seconds: float
    reason: str = ""
    #: Whether the function of the task was called: then it does not expire any more.
    was_started: bool = False


@dataclass(frozen=True, slots=True)
class Released:
    """The claim is released, not started or stopped: the job is ready again with its slot, or blocked if it has none.

    No attempt is counted.
    """

    claim: Claim
    reason: str = ""
    #: As in Snoozed.
    was_started: bool = False


#: The outcomes that a settle writes.
Outcome = Finished | Failed | Retried | Snoozed | Released


@dataclass(frozen=True, slots=True)
class Completed:
    """The task was settled in a transaction of its own: nothing is left to be written."""

    claim: Claim
    settlement: Settlement
    #: As in Finished.
    value: str | None = None
    milliseconds: float = 0.0
    #: What happened in the task after its transaction had ended, and has no effect.
    ignored: str = ""

    @property
    def is_applied(self) -> bool:
        """Whether the transaction was committed; otherwise the claim was lost, and it was rolled back."""
        return self.settlement.verdicts[self.claim.claim_id] is Verdict.APPLIED


#: How a task can end.
Ending = Outcome | Completed


class Attempt(NamedTuple):
    """One ended attempt, as it is written into the job's row."""

    job_id: UUID
    claim_id: UUID
    claimed_at: datetime
    finished_at: datetime | None
    value: str | None
    #: All errors of the job, with that of this attempt; None: as they are.
    errors: str | None
    #: What is added to the number of attempts, and of automatic retries.
    counts: int = 1
    retries: int = 0


class Verdict(StrEnum):
    """What a settle did with one outcome."""

    APPLIED = "applied"
    #: An earlier try of the same settle was applied, although its reply was lost.
    REPEATED = "repeated"
    #: The claim was lost: nothing was changed.
    FENCED = "fenced"


@dataclass(frozen=True, slots=True)
class Settlement:
    """The verdict for each claim id, and the number of jobs that were promoted to freed slots."""

    verdicts: Mapping[UUID, Verdict]
    promoted: int = 0
    #: Jobs that were to wait again and ended, because other jobs have their unique keys; each with the other.
    displaced: Mapping[UUID, UUID] = field(default_factory=dict)


def delay_of(outcome: Retried | Snoozed) -> timedelta:
    """How long the job waits; at most 100 years."""
    return timedelta(seconds=min(max(outcome.delay_seconds, 0.0), MAX_DELAY_SECONDS))


def is_cancelled(outcome: Outcome) -> bool:
    """Whether the job was cancelled: the request, which its process has read, is deleted."""
    return isinstance(outcome, Failed) and outcome.kind is FailureKind.CANCELLED


def append_error(outcome: Failed | Retried, process_name: str) -> str:
    """The errors of the job with the one of this outcome, without the oldest if there are too many."""
    claim = outcome.claim
    times: dict[str, object] = {}
    if not isinstance(outcome, Failed) or outcome.is_attempt:
        times = {
            "attempt": claim.attempts + 1,
            "worker_id": process_name,
            "started_at": claim.claimed_at.isoformat(),
            "ended_at": datetime.now(UTC).isoformat(),
        }
    return append_line(claim.errors, outcome.error.as_line(**times))


def append_line(
    text: str | None, line: str, max_lines: int = MAX_ERRORS, max_characters: int = MAX_ERRORS_CHARACTERS
) -> str:
    """The text with one more line, without the oldest if there are too many; by default the errors of a job."""
    if not text:
        return line
    lines = [*text.split("\n"), line][-max_lines:]
    while len(lines) > 1 and sum(map(len, lines)) > max_characters:
        del lines[0]
    return "\n".join(lines)


def report_of(error: BaseException) -> ErrorReport:
    """The report of an exception."""
    kind = type(error)
    return ErrorReport(
        exception_class=_clean(cut(f"{kind.__module__}.{kind.__qualname__}", 255)),
        message=_clean(cut(message_of(error), MESSAGE_LENGTH)),
        traceback=_clean(traceback_of(error)),
    )


def report(kind: type[BaseException], message: str) -> ErrorReport:
    """The report of an exception that was never raised."""
    path = f"{kind.__module__}.{kind.__qualname__}"
    message = _clean(cut(message, MESSAGE_LENGTH))
    return ErrorReport(path, message, f"{path}: {message}\n")


def _clean(text: str) -> str:
    """The text without characters that a database rejects."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
