"""Counts for people who look at the queue. Each reads a bounded number of rows, by an index: none counts a whole table.

Every statement has several counts, so that a page needs few round trips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from steady_queue.store.job import FailureKind
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


class StateCounts(NamedTuple):
    """The database's time, and how many jobs are in each state, each counted up to a limit plus one."""

    now: datetime
    failed: int
    exhausted: int
    cancelled: int
    expired: int
    #: Of the newest failed jobs, up to the limit.
    lost: int
    running: int
    ready: int
    blocked: int
    finished: int
    scheduled: int
    #: Of the scheduled jobs that are due first, up to the limit.
    retrying: int
    late_scheduled: int
    #: Ready jobs that may be late, by their ids, and those of them that are.
    maybe_late_ready: int
    late_ready: int
    #: Failed and exhausted jobs since a time.
    failed_since: int


class RunningCount(NamedTuple):
    """How many jobs of a queue run in a process."""

    process_id: UUID
    queue_name: str
    running: int


@operation(transaction=False)
def count_states(
    sql: Dialect,
    *,
    limit: int,
    lost_classes: Sequence[str],
    late_seconds: float,
    enqueued_before: UUID,
    failed_after: datetime | None = None,
) -> Flow[StateCounts]:
    """Count the jobs of each state up to `limit` + 1. Ready jobs with ids from `enqueued_before` on are not late."""
    most = limit + 1
    failed, late = "steady_queue_failedexecution", sql.ago(late_seconds)

    def count(source: str, columns: str = "1") -> str:
        return f"(SELECT count(*) FROM (SELECT {columns} FROM {source} LIMIT {most:d}) t)"

    def join_jobs(source: str) -> str:
        first = f"(SELECT e.job_id FROM {source} LIMIT {most:d}) t"
        return f"(SELECT count(*) FROM {first} JOIN steady_queue_job j ON j.id = t.job_id WHERE "

    counts = [count(f"{failed} WHERE kind = {kind:d}") for kind in FailureKind]
    values: list[object] = [list(lost_classes)]
    newest = f"SELECT exception_class FROM {failed} ORDER BY failed_at DESC LIMIT {most:d}"
    counts.append(f"(SELECT count(*) FROM ({newest}) t WHERE t.exception_class IN ?*)")
    counts += [count(f"steady_queue_{name}execution") for name in ("claimed", "ready", "blocked")]
    # The order makes every server use the index: the jobs that are stored first may all be unfinished.
    counts.append(count("steady_queue_job WHERE finished_at IS NOT NULL ORDER BY finished_at DESC"))
    counts.append(count("steady_queue_scheduledexecution"))
    counts.append(f"{join_jobs('steady_queue_scheduledexecution e ORDER BY e.scheduled_at')}j.attempts > 0)")
    counts.append(count(f"{sql.scheduled_due} WHERE scheduled_at < {late}"))
    counts.append(count("steady_queue_readyexecution WHERE job_id < ?"))
    old = join_jobs("steady_queue_readyexecution e WHERE e.job_id < ? ORDER BY e.job_id")
    counts.append(f"{old}COALESCE(j.scheduled_at, j.enqueued_at) < {late})")
    values += [enqueued_before, enqueued_before]
    if failed_after is None:
        counts.append("0")
    else:
        kinds = f"{FailureKind.FAILED:d}, {FailureKind.EXHAUSTED:d}"
        counts.append(count(f"{failed} WHERE kind IN ({kinds}) AND failed_at > ?"))
        values.append(failed_after)
    rows = yield sql.statement(f"SELECT {sql.now}, {', '.join(counts)}", *values, returns="t" + "." * len(counts))
    return StateCounts(rows[0][0], *map(int, rows[0][1:]))


@operation(transaction=False)
def count_ready(sql: Dialect, queues: Sequence[str], limit: int) -> Flow[list[int]]:
    """How many ready jobs each of the queues has, counted up to `limit` + 1, in the order of the queues."""
    if not queues:
        return []
    first = f"SELECT 1 FROM {sql.ready_by_queue} WHERE r.queue_name = ? LIMIT {limit + 1:d}"
    counts = ", ".join([f"(SELECT count(*) FROM ({first}) t)"] * len(queues))
    rows = yield sql.statement(f"SELECT {counts}", *queues, returns="." * len(queues))
    return [int(number) for number in rows[0]]


@operation(transaction=False)
def count_running(sql: Dialect, limit: int) -> Flow[list[RunningCount]]:
    """How many jobs of each queue run in each process, of at most `limit` running jobs."""
    rows = yield sql.statement(
        "SELECT c.process_id, j.queue_name, count(*)"
        f" FROM (SELECT job_id, process_id FROM steady_queue_claimedexecution LIMIT {limit:d}) c"
        " JOIN steady_queue_job j ON j.id = c.job_id GROUP BY c.process_id, j.queue_name",
        returns="u..",
    )
    return [RunningCount(row[0], str(row[1]), int(row[2])) for row in rows]
