"""Statistics: the sums of what processes did in a minute, and the hours that maintenance adds them up to.

A process writes its own rows only, as absolute values: a write that is repeated after a lost reply changes nothing. It
writes no minute that is as old as those that are folded. Rows are written in the order of their keys, and only the
transaction that folds, behind the maintenance lock, changes rows of other processes: it waits for nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from steady_queue.store.operations.processes.prune import BATCH_ROWS
from steady_queue.store.statement import chunks_of, operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

MINUTE_SECONDS, HOUR_SECONDS = 60, 3_600
#: Hours are made of minutes that ended longer ago than this.
KEEP_MINUTES_SECONDS = 2.0 * HOUR_SECONDS
#: The process of an hour: none.
NO_PROCESS = UUID(int=0)


class TaskSums(NamedTuple):
    """What was done with the tasks of one path and queue since a time, for a minute or an hour."""

    starts_at: datetime
    queue_name: str
    task_path: str
    started: int = 0
    finished: int = 0
    failed: int = 0
    retried: int = 0
    run_milliseconds: int = 0
    longest_run_milliseconds: int = 0
    waits: int = 0
    wait_milliseconds: int = 0
    longest_wait_milliseconds: int = 0

    def plus(self, other: TaskSums) -> TaskSums:
        """The sums of both, from the time of this one on."""
        added = [
            max(mine, its) if name.startswith("longest") else mine + its
            for name, mine, its in zip(SUMS, self[3:], other[3:], strict=True)
        ]
        return TaskSums(*self[:3], *added)


#: The columns that are added up, or whose largest value counts.
SUMS = TaskSums._fields[3:]
_KEY = ("seconds", "starts_at", "process_id", "queue_name", "task_path")
_INTO = f"steady_queue_taskstatistics ({', '.join((*_KEY, *SUMS))}) VALUES ({', '.join('?' * (len(_KEY) + len(SUMS)))})"


@operation()
def write_minutes(sql: Dialect, process_id: UUID, rows: Sequence[TaskSums]) -> Flow[None]:
    """Write the sums of minutes of one process; rows that exist are replaced."""
    for part in chunks_of(sorted(rows), BATCH_ROWS):
        yield sql.statement_each(
            sql.insert_or_update(_INTO, _KEY, dict.fromkeys(SUMS, "{new}")),
            [_values(MINUTE_SECONDS, process_id, row) for row in part],
        )


@operation()
def fold_minutes(sql: Dialect, limit: int = BATCH_ROWS) -> Flow[int | None]:
    """Add some of the minutes of hours that ended long ago to these hours, and delete them; returns how many.

    None if another process does maintenance at this moment.
    """
    if not (yield from sql.try_maintenance()):
        return None
    (now,) = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0]
    before = _start_of_hour(now - timedelta(seconds=KEEP_MINUTES_SECONDS))
    rows = yield sql.statement(
        f"SELECT id, {', '.join(TaskSums._fields)} FROM {sql.statistics_by_time}"
        f" WHERE seconds = {MINUTE_SECONDS} AND starts_at < ? ORDER BY starts_at LIMIT ?{sql.for_update}",
        before,
        limit,
        returns="it.." + "i" * len(SUMS),
    )
    if not rows:
        return 0
    hours: dict[tuple[datetime, str, str], TaskSums] = {}
    for _, *values in rows:
        minute = TaskSums(*values)._replace(starts_at=_start_of_hour(values[0]))
        key = minute[:3]
        hours[key] = hours[key].plus(minute) if key in hours else minute
    yield sql.statement_each(
        sql.insert_or_update(_INTO, _KEY, {name: _add(sql, name) for name in SUMS}),
        [_values(HOUR_SECONDS, NO_PROCESS, row) for row in sorted(hours.values())],
    )
    yield sql.delete("taskstatistics", [row[0] for row in rows])
    return len(rows)


@operation()
def clear_hours(sql: Dialect, keep: timedelta, limit: int = BATCH_ROWS) -> Flow[int | None]:
    """Delete some of the hours that began longer than `keep` ago; returns how many.

    None if another process does maintenance at this moment.
    """
    if not (yield from sql.try_maintenance()):
        return None
    rows = yield sql.statement(
        f"SELECT id FROM {sql.statistics_by_time} WHERE {old_hours(sql, keep)} ORDER BY starts_at LIMIT ?",
        limit,
        returns="i",
    )
    if rows:
        yield sql.delete("taskstatistics", [row[0] for row in rows])
    return len(rows)


def foldable_minutes(sql: Dialect) -> str:
    """The condition of minutes whose hour has certainly ended long enough ago."""
    return f"seconds = {MINUTE_SECONDS} AND starts_at < {sql.ago(KEEP_MINUTES_SECONDS + HOUR_SECONDS)}"


def old_hours(sql: Dialect, keep: timedelta) -> str:
    """The condition of hours that began longer than `keep` ago."""
    return f"seconds = {HOUR_SECONDS} AND starts_at < {sql.ago(keep.total_seconds())}"


def _add(sql: Dialect, column: str) -> str:
    """The expression of a column of an hour that exists, to which minutes are added."""
    if column.startswith("longest"):
        return f"{sql.greatest}({{old}}, {{new}})"
    return "{old} + {new}"


def _values(seconds: int, process_id: UUID, row: TaskSums) -> tuple[object, ...]:
    return (seconds, row.starts_at, process_id, *row[1:])


def _start_of_hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
