"""What needs attention: each finding in a sentence, with the page that shows more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from steady_queue.db.transactions import run_one
from steady_queue.errors import StoreError
from steady_queue.events.wording import counted
from steady_queue.monitoring.process_list import STUCK_LAG_SECONDS, each_process
from steady_queue.monitoring.recurring.late_schedules import find_late_schedules
from steady_queue.monitoring.states import JobState
from steady_queue.monitoring.text import show_seconds
from steady_queue.store.operations.monitoring.open_transactions import find_oldest_transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from steady_queue.monitoring.process_list import ProcessRow
    from steady_queue.monitoring.queue_list import QueueRow
    from steady_queue.monitoring.state_counts import StateSummary
    from steady_queue.monitoring.statistics import Point

#: A transaction that has been open for longer keeps the database from removing the rows of jobs that have ended.
OLD_TRANSACTION_SECONDS = 300.0
#: A queue whose oldest task has been due for longer has a backlog.
BACKLOG_SECONDS = 300.0
#: The backlog of a queue whose tasks have been due for longer is reported if the waits have doubled.
GROWING_BACKLOG_SECONDS = 60.0
#: The minutes whose waits are compared with those of the minutes before.
_RECENT_MINUTES, _EARLIER_MINUTES = 5, 10
#: Findings of one kind that are listed one by one.
MAX_LISTED = 5

Level = Literal["error", "warning"]


class Target(NamedTuple):
    """A page of the dashboard, by the name of its model, and the query that shows the finding there."""

    page: str
    query: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Attention:
    """A finding. `kind` is stable, for tools; `text` is a sentence for people."""

    kind: str
    level: Level
    text: str
    target: Target = field(default_factory=lambda: Target("overview"))


def read_attention(
    summary: StateSummary, queues: Sequence[QueueRow], processes: Sequence[ProcessRow], since: datetime, period: str
) -> list[Attention]:
    """What needs attention, errors first. `since` is when the summary of failures begins, and `period` describes it."""
    found = [
        *_from_failures(summary, since, period),
        *_from_processes(list(each_process(processes)), queues),
        *_from_queues(queues),
        *_from_schedules(summary),
        *_from_transactions(),
    ]
    return sorted(found, key=lambda finding: finding.level != "error")


def _from_failures(summary: StateSummary, since: datetime, period: str) -> Iterator[Attention]:
    for state, count in summary.failed_since.items():
        if count.number:
            tasks = count.counted("task has", "tasks have")
            how = "failed in each attempt" if state is JobState.EXHAUSTED else "failed"
            query = {"state": str(state), "since": since.isoformat()}
            yield Attention("failures", "error", f"{tasks} {how} {period}.", Target("job", query))


def _from_processes(processes: Sequence[ProcessRow], queues: Sequence[QueueRow]) -> Iterator[Attention]:
    if not any(row.is_alive for row in processes) and any(row.size.number for row in queues):
        yield Attention("no_process", "error", "Tasks are ready, but no process runs.", Target("process"))
    dead = [(row, problem) for row in processes if (problem := row.explain_dead())]
    for row, problem in dead[:MAX_LISTED]:
        running = f" {row.running:,} of its tasks count as running." if row.running else ""
        text = f"Process {row.name} {problem}.{running}"
        yield Attention("dead_process", "error", text, _process_target(row))
    yield from _rest("dead_process", "error", len(dead), "processes are considered dead", Target("process"))
    stuck = [row for row in processes if row.is_stuck]
    for row in stuck[:MAX_LISTED]:
        yield Attention("stuck_process", "error", _describe_stuck(row), _process_target(row))
    yield from _rest("stuck_process", "error", len(stuck), "processes are stuck", Target("process"))


def _process_target(row: ProcessRow) -> Target:
    return Target("process", {"id": str(row.id)})


def _describe_stuck(row: ProcessRow) -> str:
    if row.is_polling is False:
        since = "since it started" if row.polled_age_seconds is None else f"for {show_seconds(row.polled_age_seconds)}"
        return f"Process {row.name} has not polled {since}."
    if row.stuck_threads:
        threads = counted(row.stuck_threads, "thread")
        return f"Process {row.name} has {threads} with tasks that ran too long and cannot be stopped."
    lag = show_seconds(row.loop_lag_seconds or STUCK_LAG_SECONDS)
    return f"The event loop of process {row.name} was blocked for {lag}: a task does not await what it waits for."


def _from_queues(queues: Sequence[QueueRow]) -> Iterator[Attention]:
    kinds: tuple[tuple[str, Level, Callable[[QueueRow], str], str], ...] = (
        ("unserved_queue", "error", _describe_unserved, "queues are not served"),
        ("backlog", "warning", _describe_backlog, "queues have a backlog"),
        ("paused_queue", "warning", _describe_paused, "queues are paused"),
    )
    for kind, level, describe, in_short in kinds:
        found = [(row, text) for row in queues if (text := describe(row))]
        for row, text in found[:MAX_LISTED]:
            yield Attention(kind, level, text, Target("queue", {"name": row.name}))
        yield from _rest(kind, level, len(found), in_short, Target("queue"))


def _describe_unserved(row: QueueRow) -> str:
    if not row.unserved_lanes or row.is_paused:
        return ""
    return f"No live process runs the {' and '.join(row.unserved_lanes)} tasks of queue {row.name}: {_waiting(row)}."


def _describe_paused(row: QueueRow) -> str:
    if not row.is_paused:
        return ""
    return f"Queue {row.name} is paused: {_waiting(row)}." if row.size.number else f"Queue {row.name} is paused."


def _describe_backlog(row: QueueRow) -> str:
    latency = row.latency_seconds or 0.0
    if row.is_paused or row.unserved_lanes or latency < GROWING_BACKLOG_SECONDS:
        return ""
    is_growing = _have_waits_doubled(row.hour)
    if latency < BACKLOG_SECONDS and not is_growing:
        return ""
    what = f"The backlog of queue {row.name} grows" if is_growing else f"Tasks of queue {row.name} wait long"
    return f"{what}: {_waiting(row)}, {row.rate_per_minute:,.0f} end per minute."


def _waiting(row: QueueRow) -> str:
    tasks = row.size.counted("task waits", "tasks wait")
    return tasks if row.latency_seconds is None else f"{tasks}, the oldest for {show_seconds(row.latency_seconds)}"


def _have_waits_doubled(hour: Sequence[Point]) -> bool:
    recent, earlier = hour[-_RECENT_MINUTES:], hour[-_RECENT_MINUTES - _EARLIER_MINUTES : -_RECENT_MINUTES]
    before, now = _longest_wait(earlier), _longest_wait(recent)
    return now > 0 and now >= 2 * before


def _longest_wait(points: Iterable[Point]) -> float:
    return max((point.longest_wait_seconds or 0.0 for point in points), default=0.0)


def _from_schedules(summary: StateSummary) -> Iterator[Attention]:
    if summary.overdue.number:
        tasks = summary.overdue.counted("scheduled task is", "scheduled tasks are")
        text = f"{tasks} due for more than a minute: no dispatcher has moved them to their queues."
        yield Attention("late_tasks", "error", text, Target("job", {"state": str(JobState.LATE)}))
    late = find_late_schedules(summary.now)
    for schedule in late[:MAX_LISTED]:
        text = f"Recurring task {schedule.key} has not run: it was due {show_seconds(schedule.late_seconds)} ago."
        yield Attention("late_schedule", "warning", text, Target("recurringtask", {"key": schedule.key}))
    yield from _rest("late_schedule", "warning", len(late), "recurring tasks are late", Target("recurringtask"))


def _from_transactions() -> Iterator[Attention]:
    try:
        oldest = run_one(lambda sql: find_oldest_transaction(sql, OLD_TRANSACTION_SECONDS))
    except StoreError:  # MySQL and MariaDB show transactions only to users with the PROCESS privilege
        return
    if oldest is not None:
        who = " of ".join(part for part in (oldest.name, oldest.user) if part)
        text = (
            f"A transaction has been open for {show_seconds(oldest.seconds)} (connection {oldest.connection_id}"
            f"{f', {who}' if who else ''}): until it ends, the database cannot remove the rows of ended tasks."
        )
        yield Attention("old_transaction", "warning", text)


def _rest(kind: str, level: Level, count: int, what: str, target: Target) -> Iterator[Attention]:
    """The finding for those that are not listed one by one."""
    if count > MAX_LISTED:
        yield Attention(kind, level, f"{count - MAX_LISTED:,} more {what}.", target)
