"""Counts for people who look at the queue. Each reads a bounded number of rows, by an index: none counts a whole table.

Every statement has several counts, so that a page needs few round trips.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from steady_queue.store.job import FailureKind
from steady_queue.store.operations.monitoring.each_name import read_each_name
from steady_queue.store.statement import operation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow


#: A count as an expression, and the values of its parameters.
Counted: TypeAlias = "tuple[str, Sequence[object]]"


#: A newer version may have stored kinds that this one lacks: their jobs count as failed.
_IS_UNKNOWN = f"kind > {max(FailureKind):d}"


class StateCounts(NamedTuple):
    """The database's time, and how many jobs are in each state, each counted up to a limit plus one.

    `lost`, `retrying` and `late_ready` are of those of the first jobs that were looked at.
    """

    now: datetime
    failed: int
    exhausted: int
    cancelled: int
    expired: int
    #: Of the newest failed jobs.
    lost: int
    running: int
    ready: int
    blocked: int
    finished: int
    #: With those that are scheduled for another attempt.
    scheduled: int
    #: Of the scheduled jobs that are due first.
    retrying: int
    late_scheduled: int
    #: Ready jobs that may be late, by their ids, and those of the oldest that are.
    maybe_late_ready: int
    late_ready: int
    failed_since: int
    exhausted_since: int


class RunningCounts(NamedTuple):
    """How many jobs run in each process, and of each queue; of the queues, only those that were looked up."""

    by_process: dict[UUID, int]
    by_queue: dict[str, int]


@operation(transaction=False)
def count_states(
    sql: Dialect,
    *,
    limit: int,
    looked_up: int,
    lost_classes: Sequence[str],
    late_seconds: float,
    late_id: UUID,
    failed_after: datetime | None = None,
) -> Flow[StateCounts]:
    """Count the jobs of each state up to `limit` + 1, and failures after a time.

    Where an index is not enough, only so many jobs are looked up.

    Ready jobs are late if they have been due for `late_seconds`; those with ids after `late_id` cannot be.
    """
    late = sql.ago(late_seconds)

    def count(source: str, *values: object, most: int = limit + 1) -> Counted:
        return f"(SELECT count(*) FROM (SELECT 1 FROM {source} LIMIT {most:d}) t)", values

    def count_jobs(condition: str, source: str, *values: object) -> Counted:
        """Of the first rows, count those whose jobs meet a condition.

        The job of each row is looked up: for a join, PostgreSQL may read the whole table of jobs (measured).
        """
        first = f"(SELECT e.job_id FROM {source} LIMIT {looked_up:d}) t"
        meets = f"(SELECT CASE WHEN {condition} THEN 1 ELSE 0 END FROM steady_queue_job j WHERE j.id = t.job_id)"
        return f"(SELECT count(*) FROM {first} WHERE {meets} = 1)", values

    def count_failed(condition: str) -> Counted:
        return count(f"steady_queue_failedexecution WHERE {condition}")

    def count_failed_since(condition: str) -> Counted:
        if failed_after is None:
            return "0", ()
        return count(f"steady_queue_failedexecution WHERE {condition} AND failed_at > ?", failed_after)

    def add(one: Counted, other: Counted) -> Counted:
        return f"({one[0]} + {other[0]})", (*one[1], *other[1])

    is_late_ready = (
        f"COALESCE(j.scheduled_at, j.enqueued_at) < {late}"
        # When a job became ready again after an attempt is not stored: not before the attempt began.
        f" AND (j.last_attempted_at IS NULL OR j.last_attempted_at < {late})"
    )
    counts = {
        "failed": add(count_failed(_is_kind(FailureKind.FAILED)), count_failed(_IS_UNKNOWN)),
        "exhausted": count_failed(_is_kind(FailureKind.EXHAUSTED)),
        "cancelled": count_failed(_is_kind(FailureKind.CANCELLED)),
        "expired": count_failed(_is_kind(FailureKind.EXPIRED)),
        "lost": _count_lost(looked_up, lost_classes),
        "running": count("steady_queue_claimedexecution"),
        "ready": count("steady_queue_readyexecution"),
        "blocked": count("steady_queue_blockedexecution"),
        # The order makes every server use the index: the jobs that are stored first may all be unfinished.
        "finished": count("steady_queue_job WHERE finished_at IS NOT NULL ORDER BY finished_at DESC"),
        "scheduled": count("steady_queue_scheduledexecution"),
        "retrying": count_jobs("j.retries > 0", "steady_queue_scheduledexecution e ORDER BY e.scheduled_at"),
        "late_scheduled": count(f"{sql.scheduled_due} WHERE scheduled_at < {late}"),
        "maybe_late_ready": count("steady_queue_readyexecution WHERE job_id <= ?", late_id, most=looked_up + 1),
        "late_ready": count_jobs(
            is_late_ready, "steady_queue_readyexecution e WHERE e.job_id <= ? ORDER BY e.job_id", late_id
        ),
        "failed_since": add(count_failed_since(_is_kind(FailureKind.FAILED)), count_failed_since(_IS_UNKNOWN)),
        "exhausted_since": count_failed_since(_is_kind(FailureKind.EXHAUSTED)),
    }
    rows = yield sql.statement(
        f"SELECT {sql.now}, {', '.join(text for text, _ in counts.values())}",
        *(value for _, values in counts.values() for value in values),
        returns="t" + "." * len(counts),
    )
    now, *numbers = rows[0]
    return StateCounts(now, **{name: int(number) for name, number in zip(counts, numbers, strict=True)})


def _is_kind(kind: FailureKind) -> str:
    return f"kind = {kind:d}"


def _count_lost(looked_up: int, lost_classes: Sequence[str]) -> Counted:
    newest = (
        f"SELECT exception_class FROM steady_queue_failedexecution WHERE kind = {FailureKind.FAILED:d}"
        f" ORDER BY failed_at DESC LIMIT {looked_up:d}"
    )
    return f"(SELECT count(*) FROM ({newest}) t WHERE t.exception_class IN ?*)", (list(lost_classes),)


@operation(transaction=False)
def count_ready(sql: Dialect, queues: Sequence[str], limit: int) -> Flow[list[int]]:
    """How many ready jobs each of the queues has, counted up to `limit` + 1, in the order of the queues."""
    first = (
        f"SELECT 1 FROM {sql.ready_by_queue} WHERE r.queue_name = {{name}}"
        f" ORDER BY r.queue_name, r.lane, r.priority DESC, r.job_id LIMIT {limit + 1:d}"
    )
    rows = yield from read_each_name(sql, queues, [f"(SELECT count(*) FROM ({first}) t)"])
    return [int(row[0]) for row in rows]


@operation(transaction=False)
def count_running(sql: Dialect, limit: int, looked_up: int) -> Flow[RunningCounts]:
    """Count at most `limit` running jobs by process, and by queue, for which at most so many jobs are looked up.

    With more running jobs, some are looked up, at irregular places: to look up 5,000 jobs among a million takes longer
    than everything else on a page (measured), and every n-th job may be of the same queue.
    """
    claimed = f"(SELECT job_id, process_id FROM steady_queue_claimedexecution LIMIT {limit:d}) c"
    rows = yield sql.statement(f"SELECT c.process_id, count(*) FROM {claimed} GROUP BY c.process_id", returns="u.")
    by_process = {row[0]: int(row[1]) for row in rows}
    running = sum(by_process.values())
    if not running:
        return RunningCounts({}, {})
    # The multiples of this number, modulo 65,536, are spread evenly: so many of them are below.
    below = (1 << 16) * min(looked_up, running) // running
    rows = yield sql.statement(
        "SELECT r.queue_name, count(*) FROM ("
        "SELECT (SELECT j.queue_name FROM steady_queue_job j WHERE j.id = n.job_id) AS queue_name"
        f" FROM (SELECT c.job_id, row_number() OVER () AS place FROM {claimed}) n"
        f" WHERE ((n.place * 40503) & 65535) < {below:d}) r GROUP BY r.queue_name",
        returns="..",
    )
    # A job may have been deleted meanwhile.
    return RunningCounts(by_process, {str(name): int(number) for name, number in rows if name is not None})
