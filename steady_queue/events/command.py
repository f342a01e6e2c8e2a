"""Events of `manage.py steady_queue` as a whole: its start, the sums of its tasks, its end."""

from __future__ import annotations

import logging
from typing import ClassVar

from steady_queue.events.base import Event

__all__ = ["CheckWarning", "CommandFailed", "CommandStarted", "CommandStopped", "TasksCounted"]


class CheckWarning(Event):
    """A check at the start found a problem that does not prevent the start. Emitted with the JSON log only."""

    level: ClassVar[int] = logging.WARNING
    text: ClassVar[str] = "%(problem)s"
    problem: str


class CommandStarted(Event):
    """What the command runs. Emitted with the JSON log, instead of the banner."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = "Steady Queue %(version)s on %(database)s: %(runs)s"
    version: str
    database: str
    pid: int
    runs: str


class CommandFailed(Event):
    """The command did not start. Emitted with the JSON log, instead of the text on stderr."""

    level: ClassVar[int] = logging.ERROR
    text: ClassVar[str] = "the command did not start: %(problem)s"
    problem: str


class TasksCounted(Event):
    """What the processes of the command did since the last such event. Emitted once a minute if tasks have ended."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "%(done)d task[s] done, %(failed)d failed, %(released)d released in %(seconds).0f s"
        " (%(per_second)g per second), %(running)d running"
    )
    done: int
    failed: int
    released: int
    running: int
    seconds: float
    per_second: float


class CommandStopped(Event):
    """The totals of all processes of the command, including those that were replaced."""

    level: ClassVar[int] = logging.INFO
    text: ClassVar[str] = (
        "Steady Queue stopped: %(done)d task[s] done, %(failed)d failed, %(released)d released"
        " in %(duration)s (%(per_second)g per second)"
    )
    done: int
    failed: int
    released: int
    seconds: float
    #: The same as `seconds`, for people: `2 h 5 min`.
    duration: str
    per_second: float
