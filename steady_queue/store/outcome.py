"""The outcome of a claim, and the verdict of the database on it.

An exception as text that can be stored: for any exception, this must not fail and must not be huge.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from steady_queue.events.tracebacks import MESSAGE_LENGTH, cut, message_of, traceback_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import Claim

#: Attempts are counted up to this number, the largest that the column can store on every database.
MAX_ATTEMPTS = 2_147_483_647


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """An exception as text that any database can store."""

    exception_class: str
    message: str
    traceback: str

    def as_line(self) -> str:
        """The report as one line of ASCII JSON, which is appended to the job's errors."""
        return json.dumps(
            {"exception_class_path": self.exception_class, "message": self.message, "traceback": self.traceback}
        )


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


@dataclass(frozen=True, slots=True)
class Released:
    """The claim is released, not started or stopped: the job is ready again with its slot, or blocked if it has none.

    No attempt is counted.
    """

    claim: Claim
    reason: str = ""


Outcome = Finished | Failed | Released


class Attempt(NamedTuple):
    """One ended attempt, as it is written into the job's row."""

    job_id: UUID
    claim_id: UUID
    claimed_at: datetime
    finished_at: datetime | None
    value: str | None
    error: str | None


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
