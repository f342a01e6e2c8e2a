"""Enqueue: a job row and its first execution row, together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from steady_queue.store.job import NewJob, OnConflict
from steady_queue.store.operations.promote import discard_refused, insert_blocked, limit_in_force, promote
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.sql.dialect import SingleStatements
    from steady_queue.store.statement import Flow

#: Rows, and characters of arguments, in one insert: larger ones gain nothing, and are held in memory twice.
INSERT_ROWS = 5_000
INSERT_CHARACTERS = 8_000_000

#: The columns of a job without delay, headers or limit: the first of NewJob's.
PLAIN_JOB_COLUMNS = NewJob._fields[:8]
JOB_COLUMNS = NewJob._fields
PLAIN_JOB_REST = (None,) * (len(JOB_COLUMNS) - len(PLAIN_JOB_COLUMNS))


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of the jobs: those discarded because their key was full, and those still to be admitted."""

    discarded: frozenset[UUID] = frozenset()
    blocked: Sequence[NewJob] = ()
    #: Whether listeners were notified with the same statement.
    notified: bool = False


_ALL_READY = Enqueued()
_READY_AND_NOTIFIED = Enqueued(notified=True)


def enqueue(
    sql: Dialect,
    jobs: Sequence[NewJob],
    *,
    promoting: bool = True,
    is_repeated: bool = False,
    reserve_notification: Callable[[], bool] | None = None,
    limits: Limits | None = None,
    wait_seconds: int | None = None,
) -> Operation[Enqueued]:
    """Store the jobs, all or none.

    `promoting` belongs to callers that own the transaction; inside somebody else's the limited jobs stay blocked, and
    `Enqueued.blocked` must be admitted after its commit. `is_repeated` makes it safe after a lost reply: jobs that are
    there already are left alone. `wait_seconds` limits the wait for concurrency keys that others have locked; after it,
    the operation fails with a lock timeout and can be repeated with `promoting=False`.
    `reserve_notification` is asked whether to notify listeners with the same statement, where that can be.
    """
    if sql.single_statements is not None and not is_repeated and _all_ready(jobs) and len(_chunks(jobs)) == 1:
        if len(jobs) == 1 and reserve_notification is not None and reserve_notification():
            return Operation("enqueue", partial(_enqueue_and_notify, sql.single_statements, jobs[0]), transaction=False)
        return Operation("enqueue", partial(_enqueue_at_once, sql.single_statements, jobs), transaction=False)
    flow = partial(_enqueue, sql, jobs, promoting, is_repeated, limits or {}, wait_seconds)
    retries = wait_seconds is None or all(job.concurrency_key is None for job in jobs)
    return Operation("enqueue", flow, retries_lock_timeout=retries)


def _enqueue_at_once(sql: SingleStatements, jobs: Sequence[NewJob]) -> Flow[Enqueued]:
    """What most enqueues are: one statement."""
    yield sql.insert_ready(jobs)
    return _ALL_READY


def _enqueue_and_notify(sql: SingleStatements, job: NewJob) -> Flow[Enqueued]:
    yield sql.insert_and_notify(job)
    return _READY_AND_NOTIFIED


def _enqueue(
    sql: Dialect, jobs: Sequence[NewJob], promoting: bool, is_repeated: bool, limits: Limits, wait_seconds: int | None
) -> Flow[Enqueued]:
    if not jobs or (is_repeated and (yield from _any_stored(sql, jobs))):
        return Enqueued()
    ready, scheduled, blocked = yield from _sorted_out(sql, jobs)
    for chunk in _chunks(ready):
        yield from _insert_ready(sql, chunk)
    for chunk in _chunks(scheduled):
        yield from _insert_scheduled(sql, chunk)
    for chunk in _chunks(blocked):
        yield from _insert_blocked(sql, chunk)
    if not promoting:
        return Enqueued(blocked=blocked)
    return Enqueued(discarded=(yield from _admit(sql, blocked, limits, wait_seconds)))


def _any_stored(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[bool]:
    """Whether an earlier try was committed. Any one job tells: they came together, and some may be gone again."""
    for at in range(0, len(jobs), INSERT_ROWS):
        ids = [job.id for job in jobs[at : at + INSERT_ROWS]]
        if (yield sql.say("SELECT id FROM steady_queue_job WHERE id IN ?* LIMIT 1", ids, returns="u")):
            return True
    return False


def admit(
    sql: Dialect, blocked: Sequence[NewJob], limits: Limits | None = None, *, wait_seconds: int | None = None
) -> Operation[frozenset[UUID]]:
    """Give blocked jobs the slots that are free, now that they are committed; returns those discarded instead."""
    flow = partial(_admit, sql, blocked, limits or {}, wait_seconds)
    return Operation("admit", flow, retries_lock_timeout=wait_seconds is None)


def _admit(sql: Dialect, blocked: Sequence[NewJob], limits: Limits, wait_seconds: int | None) -> Flow[frozenset[UUID]]:
    keys = {
        job.concurrency_key: limit_in_force(limits, job.task_path, job.concurrency_limit)
        for job in blocked
        if job.concurrency_key is not None
    }
    yield from promote(sql, keys, limits, wait_seconds)
    choosy = [job.id for job in blocked if job.on_conflict == OnConflict.DISCARD]
    return (yield from discard_refused(sql, choosy))


def _all_ready(jobs: Sequence[NewJob]) -> bool:
    return all(job.scheduled_at is None and job.concurrency_key is None for job in jobs)


def _sorted_out(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[tuple[list[NewJob], list[NewJob], list[NewJob]]]:
    """The jobs by the kind of their first execution row. The database's clock decides what is due."""
    if _all_ready(jobs):
        return list(jobs), [], []
    now: datetime | None = None
    if any(job.scheduled_at is not None for job in jobs):
        now = (yield sql.say(f"SELECT {sql.now}", returns="t"))[0][0]
    ready: list[NewJob] = []
    scheduled: list[NewJob] = []
    blocked: list[NewJob] = []
    for job in jobs:
        if job.scheduled_at is not None and now is not None and job.scheduled_at > now:
            scheduled.append(job)
        elif job.concurrency_key is not None:
            blocked.append(job)
        else:
            ready.append(job)
    return ready, scheduled, blocked


def _chunks(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    """The jobs in parts that are inserted together."""
    if len(jobs) <= INSERT_ROWS and sum([len(job.arguments) for job in jobs]) <= INSERT_CHARACTERS:
        return [jobs] if jobs else []
    chunks: list[Sequence[NewJob]] = []
    first = characters = 0
    for at, job in enumerate(jobs):
        characters += len(job.arguments)
        if at > first and (at - first == INSERT_ROWS or characters > INSERT_CHARACTERS):
            chunks.append(jobs[first:at])
            first, characters = at, len(job.arguments)
    return [*chunks, jobs[first:]]


def _insert_ready(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    if sql.single_statements:
        yield sql.single_statements.insert_ready(jobs)
        return
    yield from _insert_jobs(sql, jobs)
    yield sql.say_each(
        "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (?, ?, ?, ?)",
        [(job.id, job.queue_name, job.lane, job.priority) for job in jobs],
    )


def _insert_scheduled(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    if sql.single_statements:
        yield sql.single_statements.insert_scheduled(jobs)
        return
    yield from _insert_jobs(sql, jobs)
    yield sql.say_each(
        "INSERT INTO steady_queue_scheduledexecution (job_id, scheduled_at, priority) VALUES (?, ?, ?)",
        [(job.id, job.scheduled_at, job.priority) for job in jobs],
    )


def _insert_blocked(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    if sql.single_statements:
        yield sql.single_statements.insert_blocked(jobs)
        return
    yield from _insert_jobs(sql, jobs)
    yield insert_blocked(sql, [(job.id, job.concurrency_key, job.priority) for job in jobs])


def _insert_jobs(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    width = (
        len(PLAIN_JOB_COLUMNS)
        if all(job[len(PLAIN_JOB_COLUMNS) :] == PLAIN_JOB_REST for job in jobs)
        else len(JOB_COLUMNS)
    )
    yield sql.say_each(
        f"INSERT INTO steady_queue_job ({', '.join(JOB_COLUMNS[:width])}) VALUES ({', '.join('?' * width)})",
        [job[:width] for job in jobs],
    )
