"""Task counts: what a process did with its tasks in each minute, by queue and task.

Every task that succeeds appends how long it ran to a list that it got at its start, and nothing else. The lists are
summed up every few seconds, how long tasks had waited is read from some claims of each batch, and how many attempts
were started is computed only when the minute ends or is written (see `_count_started`).

Minutes are those of the database, which the process knows from its heartbeats. Between them it uses its own monotonic
clock. A minute never begins again after it has ended, even if the clock of the database is set back.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING

from steady_queue.aio.worker.unknown_tasks import is_releasable
from steady_queue.store.operations.maintenance.statistics import MINUTE_SECONDS, TaskSums
from steady_queue.store.outcome import Completed, Failed, Retried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from steady_queue.aio.worker.running import Running
    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Ending

#: How many minutes that could not be written are kept: fewer than maintenance leaves as minutes.
MAX_MINUTES = 60
#: How many rows of such minutes are kept, unless the last minute has more.
MAX_ROWS = 20_000

#: Of how many claims of a task at once the waits are read one by one; of more than twice as many, not of all.
MAX_WAITS = 32

_MINUTE = timedelta(seconds=MINUTE_SECONDS)

#: A queue and the path of a task.
Key = tuple[str, str]


class Sums:
    """What was done with the tasks of one path and queue in one minute."""

    __slots__ = (
        "failed",
        "finished",
        "longest_run_seconds",
        "longest_wait_seconds",
        "others",
        "retried",
        "run_seconds",
        "started",
        "wait_seconds",
        "waits",
    )

    def __init__(self) -> None:
        self.started = 0
        self.finished = 0
        self.failed = 0
        self.retried = 0
        #: Attempts that were stopped, released or snoozed.
        self.others = 0
        self.run_seconds = 0.0
        self.longest_run_seconds = 0.0
        self.waits = 0
        self.wait_seconds = 0.0
        self.longest_wait_seconds = 0.0

    @property
    def ended(self) -> int:
        return self.finished + self.failed + self.retried + self.others

    def add_runs(self, seconds: Sequence[float]) -> None:
        self.run_seconds += sum(seconds)
        self.longest_run_seconds = max(self.longest_run_seconds, *seconds)

    def add_waits(self, claims: Sequence[Claim]) -> None:
        """Add how long claimed jobs had waited. Of very many, some stand for those that follow them."""
        step = max(1, len(claims) // MAX_WAITS)
        for first in range(0, len(claims), step):
            seconds = claims[first].waited_seconds
            if seconds is not None:
                count = min(step, len(claims) - first)
                self.waits += count
                self.wait_seconds += seconds * count
                self.longest_wait_seconds = max(self.longest_wait_seconds, seconds)

    def as_row(self, starts_at: datetime, key: Key) -> TaskSums:
        return TaskSums(
            starts_at,
            *key,
            self.started,
            self.finished,
            self.failed,
            self.retried,
            round(self.run_seconds * 1000),
            round(self.longest_run_seconds * 1000),
            self.waits,
            round(self.wait_seconds * 1000),
            round(self.longest_wait_seconds * 1000),
        )


class Minute:
    """The sums of one minute, and those of its rows that are written."""

    def __init__(self, starts_at: datetime | None, carried: Counter[Key]) -> None:
        #: None: the time of the database is not known yet.
        self.starts_at = starts_at
        self.sums: dict[Key, Sums] = {}
        #: Attempts that were running when it began: they were started in an earlier minute.
        self.carried = carried
        self.written: dict[Key, TaskSums] = {}

    def sums_of(self, key: Key) -> Sums:
        if key not in self.sums:
            self.sums[key] = Sums()
        return self.sums[key]

    def unwritten(self) -> list[TaskSums]:
        if self.starts_at is None:
            return []
        rows = {key: sums.as_row(self.starts_at, key) for key, sums in self.sums.items()}
        return [row for key, row in rows.items() if any(row[3:]) and self.written.get(key) != row]


class TaskCounts:
    """Used in the event loop only."""

    def __init__(self, running: Callable[[], Iterable[Running]]) -> None:
        self._running = running
        self._times: dict[Key, list[float]] = {}
        self._ended: list[Minute] = []
        self._minute = Minute(None, Counter())
        #: When the minute ends, by `time.monotonic()`.
        self._ends_at = inf

    def runs_of(self, claims: Sequence[Claim]) -> Iterator[tuple[list[float], Sequence[Claim]]]:
        """Yield claims in runs of the same task and queue, each with its `times_of`, and count their waits.

        The claims of most batches are of one task: it is cheaper to compare than to look up the list of each.
        """
        first, queue_name, task_path = 0, "", ""
        for at, claim in enumerate(claims):
            if claim.task_path != task_path or claim.queue_name != queue_name:
                if at:
                    yield self._begin_run(claims[first:at])
                first, queue_name, task_path = at, claim.queue_name, claim.task_path
        if claims:
            yield self._begin_run(claims[first:])

    def _begin_run(self, claims: Sequence[Claim]) -> tuple[list[float], Sequence[Claim]]:
        key = claims[0].queue_name, claims[0].task_path
        self._minute.sums_of(key).add_waits(claims)
        return self.times_of(key), claims

    def times_of(self, key: Key) -> list[float]:
        """Return the list to which each attempt that succeeds adds how many seconds it ran."""
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = []
        return times

    def add(self, outcome: Ending, seconds: float) -> None:
        """Count an attempt whose outcome is not `Finished`: those are counted by `times_of`."""
        claim = outcome.claim
        sums = self._minute.sums_of((claim.queue_name, claim.task_path))
        if isinstance(outcome, Retried):
            sums.retried += 1
        elif isinstance(outcome, Failed) and not is_releasable(outcome):
            sums.failed += 1
        elif isinstance(outcome, Completed) and outcome.is_applied:
            sums.finished += 1
        else:
            sums.others += 1
            return
        sums.add_runs([seconds])

    def sum_up(self) -> None:
        """Sum up how long the attempts ran that have succeeded."""
        for key, times in self._times.items():
            if times:
                sums = self._minute.sums_of(key)
                sums.finished += len(times)
                sums.add_runs(times)
                times.clear()

    def set_time(self, now: datetime, at: float) -> None:
        """Note the time of the database at a monotonic time."""
        minute = self._minute
        if minute.starts_at is None:
            minute.starts_at = now.replace(second=0, microsecond=0)
        self._ends_at = at + (minute.starts_at + _MINUTE - now).total_seconds()

    def seconds_left(self, at: float) -> float:
        """How long the minute continues after a monotonic time."""
        return self._ends_at - at

    def collect(self, at: float) -> list[TaskSums]:
        """Return all rows that are to be written at a monotonic time."""
        self.change_minute(at)
        self.sum_up()
        self._count_started(self._count_running())
        return [row for minute in (*self._ended, self._minute) for row in minute.unwritten()]

    def confirm(self, rows: Sequence[TaskSums]) -> None:
        """Note that these rows are written."""
        minutes = {minute.starts_at: minute for minute in (*self._ended, self._minute)}
        for row in rows:
            if (minute := minutes.get(row.starts_at)) is not None:
                minute.written[row.queue_name, row.task_path] = row
        self._ended = [minute for minute in self._ended if minute.unwritten()]

    def change_minute(self, at: float) -> None:
        """Begin the minute of a monotonic time, unless it has begun."""
        before = self._minute
        if before.starts_at is None or at < self._ends_at:
            return
        self.sum_up()
        running = self._count_running()
        self._count_started(running)
        if before.sums:
            self._ended.append(before)
        minutes = 1 + int((at - self._ends_at) // MINUTE_SECONDS)
        self._minute = Minute(before.starts_at + minutes * _MINUTE, running)
        self._ends_at += minutes * MINUTE_SECONDS
        self._drop_unused_times()
        self._drop_oldest()

    def _drop_unused_times(self) -> None:
        """Forget tasks and queues of which nothing runs: a project may have any number of queues."""
        used = {id(running.times) for running in self._running()}
        self._times = {key: times for key, times in self._times.items() if times or id(times) in used}

    def _count_running(self) -> Counter[Key]:
        return Counter(
            (running.claim.queue_name, running.claim.task_path) for running in self._running() if running.has_begun
        )

    def _count_started(self, running: Counter[Key]) -> None:
        """Of each key: what has ended and what runs, without what had been started before the minute began."""
        minute = self._minute
        for key in running - minute.carried:
            minute.sums_of(key)
        for key, sums in minute.sums.items():
            sums.started = max(0, sums.ended + running[key] - minute.carried[key])

    def _drop_oldest(self) -> None:
        """Bound what is kept while the database cannot be reached."""
        if self._minute.starts_at is None:
            return
        oldest = self._minute.starts_at - MAX_MINUTES * _MINUTE
        self._ended = [minute for minute in self._ended if minute.starts_at is not None and minute.starts_at >= oldest]
        rows = sum(len(minute.sums) for minute in self._ended)
        while len(self._ended) > 1 and rows > MAX_ROWS:
            rows -= len(self._ended.pop(0).sums)
