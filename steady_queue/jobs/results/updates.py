"""Updates: what changes while a task is watched, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from steady_queue.jobs.results.task_result import TaskState, state_of
from steady_queue.jobs.running.reports import LogLine, Progress, load_log, load_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from steady_queue.store.job import JobRecord, JobState


@dataclass(frozen=True, slots=True)
class StateChanged:
    """The task is in another state than before; the first update is one as well."""

    state: TaskState
    #: The number of the attempt that runs, or that has run last; 0 before the first.
    attempt: int = 0


#: What `SteadyQueueResult.updates` yields.
Update: TypeAlias = StateChanged | Progress | LogLine


class Changes:
    """Compares what is read of a job with what was read before."""

    def __init__(self) -> None:
        self._state: StateChanged | None = None
        self._progress: Progress | None = None
        self._line: LogLine | None = None

    def find(self, seen: JobState | JobRecord) -> Iterator[Update]:
        """Yield what is new. A final state is the last; another state comes before what the task then reported."""
        state = _state(seen)
        if state != self._state and not state.state.is_final:
            yield state
        yield from self._new_lines(load_log(seen.log))
        progress = _progress(seen.progress)
        if progress is not None and progress != self._progress:
            self._progress = progress
            yield progress
        if state != self._state and state.state.is_final:
            yield state
        self._state = state

    def _new_lines(self, lines: list[LogLine]) -> list[LogLine]:
        """The lines after the last one that is known; all of them if that was cut off meanwhile."""
        first = 0
        if self._line is not None and self._line in lines:
            first = len(lines) - lines[::-1].index(self._line)
        if lines:
            self._line = lines[-1]
        return lines[first:]


def _state(seen: JobState | JobRecord) -> StateChanged:
    state = state_of(seen)
    return StateChanged(state, seen.attempts + (state is TaskState.RUNNING))


def _progress(text: str | None) -> Progress | None:
    try:
        return load_progress(text)
    except (ValueError, TypeError, KeyError, AttributeError):  # written by another program
        return None
