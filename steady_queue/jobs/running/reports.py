"""What a running task reports: its progress, and the lines of its log.

Both are stored as JSON: the progress as one object, the log as one object on each line. The database keeps the newest
part of a log. What it cut off leaves the rest of a line at the beginning, which is ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from steady_queue.arguments.json_text import encode

#: How many characters the message of a progress may have, and after how many a line of the log is cut.
MESSAGE_CHARACTERS = 1_000
LINE_CHARACTERS = 4_000
#: Numbers below this are exact in every database and every client.
_LARGEST_NUMBER = 2**63


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is. `total` is None if it is not known."""

    done: float
    total: float | None = None
    message: str = ""
    #: When it was reported.
    at: datetime | None = None

    @property
    def fraction(self) -> float | None:
        """The done part of the total, from 0 to 1; None if the total is not known."""
        return None if self.total is None else min(1.0, self.done / self.total) if self.total else 1.0


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a task logged, in which attempt."""

    message: str
    attempt: int
    at: datetime


def check_progress(done: object, total: object, message: object) -> None:
    """Raise TypeError or ValueError if these values are no progress."""
    _check_number("done", done)
    if total is not None:
        _check_number("total", total)
    if not isinstance(message, str):
        raise TypeError(f"message must be a string, not {type(message).__name__}")
    if len(message) > MESSAGE_CHARACTERS:
        raise ValueError(f"message has {len(message):,} characters; the limit is {MESSAGE_CHARACTERS:,}")


def _check_number(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} must be an int or a float, not {type(value).__name__}")
    if not 0 <= value < _LARGEST_NUMBER:  # NaN is neither
        raise ValueError(f"{name} must be a number from zero to 2**63, not {value!r:.50}")


def cut_line(message: object) -> str:
    """Return a line for the log, cut to its greatest length; raises TypeError if it is no string."""
    if not isinstance(message, str):
        raise TypeError(f"a line of the log must be a string, not {type(message).__name__}")
    return message if len(message) <= LINE_CHARACTERS else f"{message[: LINE_CHARACTERS - 1]}…"


def dump_progress(progress: Progress) -> str:
    at = None if progress.at is None else _dump_time(progress.at)
    return encode({"done": progress.done, "total": progress.total, "message": progress.message, "at": at})


def load_progress(text: str | None) -> Progress | None:
    """Return a stored progress; raises ValueError, TypeError or KeyError if it is none."""
    if text is None:
        return None
    stored = json.loads(text)
    done, total, message, at = stored["done"], stored.get("total"), stored.get("message", ""), stored.get("at")
    check_progress(done, total, message)
    return Progress(done, total, message, None if at is None else _load_time(at))


def dump_line(line: LogLine) -> str:
    return encode({"at": _dump_time(line.at), "attempt": line.attempt, "message": line.message})


def load_log(text: str | None) -> list[LogLine]:
    """Return the lines of a stored log that can be read."""
    lines = [_load_line(line) for line in text.split("\n")] if text else []
    return [line for line in lines if line is not None]


def _load_line(text: str) -> LogLine | None:
    try:
        stored: Any = json.loads(text)
        message, attempt = stored["message"], stored["attempt"]
        at = _load_time(stored["at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return LogLine(message, attempt, at) if isinstance(message, str) and isinstance(attempt, int) else None


def _dump_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def _load_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
