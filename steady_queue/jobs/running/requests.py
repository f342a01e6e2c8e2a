"""What a task raises to decide what happens to it: run again later, never again, or continue elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from steady_queue.jobs.definition.durations import is_delay, read_seconds


class TaskRequest(Exception):
    """Raised by a task; the worker carries it out."""


class RetryLater(TaskRequest):
    """This attempt has failed; run the task again after so many seconds or that timedelta. Spends an attempt.

    Without `after`, the `backoff` of the task decides.
    """

    def __init__(self, reason: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(reason)
        self.after_seconds = None if after is None else _seconds("after", after)


class Snooze(TaskRequest):
    """Run the task again at a time, or after so many seconds or that timedelta. Spends no attempt."""

    def __init__(
        self, reason: str = "", *, until: datetime | None = None, after: float | timedelta | None = None
    ) -> None:
        super().__init__(reason)
        if (until is None) == (after is None):
            raise TypeError("Snooze takes either until or after")
        if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
            raise TypeError(f"until must be an aware datetime, not {until!r}")
        self.until = until
        self.after_seconds = None if after is None else _seconds("after", after)

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is restored with its positional arguments, and this one needs one of its keywords.
        return _restore_snooze, (*self.args, self.until, self.after_seconds), self.__dict__


class GiveUp(TaskRequest):
    """The task has failed, and is not retried, even if it has attempts left."""


class Interrupted(TaskRequest):
    """Release the task, so that it runs again, here or elsewhere. Spends no attempt."""


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = read_seconds(value)
    if not is_delay(seconds):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, not negative, not {value!r}")
    return seconds


def _restore_snooze(reason: str, until: datetime | None, after: float | None) -> Snooze:
    return Snooze(reason, until=until, after=after)
