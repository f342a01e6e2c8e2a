"""JobState: the states in which people look for tasks; and how much attention each state needs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

#: How much attention something needs: pages and the terminal have a colour for each level.
Level = Literal["error", "warning", "info", "ok", "quiet"]


class JobState(StrEnum):
    """What a task does now, or how it ended.

    `lost` is a part of `failed`, and `late` of `scheduled`, `retrying` and `ready`.
    """

    FAILED = "failed"
    #: Failed in each of its attempts, more than one.
    EXHAUSTED = "exhausted"
    #: Failed because its process exited or was considered dead.
    LOST = "lost"
    RUNNING = "running"
    READY = "ready"
    #: Due for longer than `LATE_SECONDS`, and neither running nor blocked.
    LATE = "late"
    SCHEDULED = "scheduled"
    #: Scheduled for another attempt.
    RETRYING = "retrying"
    BLOCKED = "blocked"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


#: How long a task may be due before it is late.
LATE_SECONDS = 60

_STATES: Mapping[Level, tuple[str, ...]] = {
    "error": (JobState.FAILED, JobState.EXHAUSTED, JobState.LOST, "dead", "stuck", "not served"),
    "warning": (
        *(JobState.LATE, JobState.RETRYING, JobState.CANCELLED, JobState.EXPIRED, "paused"),
        *("cancel requested", "interrupted"),  # in the life of a task
    ),
    "info": (JobState.RUNNING,),
    "ok": (JobState.FINISHED, "alive", "active"),
}
_LEVELS = {state: level for level, states in _STATES.items() for state in states}


def level_of(state: str) -> Level:
    """The level of a state of a task, a process or a queue, or of an entry in the life of a task."""
    return _LEVELS.get(state, "quiet")
