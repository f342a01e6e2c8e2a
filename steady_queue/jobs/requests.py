"""What a task raises to decide what happens to it: run again later, never again, or continue elsewhere."""

from __future__ import annotations

from datetime import datetime, timedelta


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


class GiveUp(TaskRequest):
    """The task has failed, and is not retried, even if it has attempts left."""


class Interrupted(TaskRequest):
    """Release the task, so that it runs again, here or elsewhere. Spends no attempt."""


def _seconds(name: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, not negative, not {value!r}")
    return float(seconds)
