"""Enqueue: a job row and its first execution row, together or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from steady_queue.store.job import JOB_COLUMNS, PLAIN_JOB_COLUMNS, PLAIN_JOB_REST, OnConflict
from steady_queue.store.operations.expiry import insert_expiries
from steady_queue.store.operations.promote import (
    NO_LIMITS,
    discard_without_slot,
    insert_blocked,
    limit_in_force,
    promote,
)
from steady_queue.store.operations.uniqueness.conflicts import resolve_duplicates
from steady_queue.store.statement import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import JobRecord, NewJob, Uniqueness
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.sql import Dialect
    from steady_queue.store.sql.dialect import SingleStatements
    from steady_queue.store.statement import Flow

#: Rows, and characters of arguments, in one insert: larger ones gain nothing, and are held in memory twice.
INSERT_ROWS = 5_000
INSERT_CHARACTERS = 8_000_000


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of the jobs, where they are not simply stored."""

    #: Because their key had no free slot.
    discarded: frozenset[UUID] = frozenset()
    #: Still to be admitted, after the commit.
    blocked: Sequence[NewJob] = ()
    #: Concurrency keys that have lost a slot, and are promoted after the commit.
    freed: Mapping[str, int] = field(default_factory=dict)
    #: The jobs that have the unique keys of others, which are not stored: see `Resolved`.
    existing: Mapping[UUID, UUID] = field(default_factory=dict)
    records: Mapping[UUID, JobRecord] = field(default_factory=dict)
    skipped: frozenset[UUID] = frozenset()
    replaced: Sequence[UUID] = ()
    #: Whether the same statement notified the listeners.
    notified: bool = False


_ALL_READY = Enqueued()
_READY_AND_NOTIFIED = Enqueued(notified=True)


def enqueue(
    sql: Dialect,
    jobs: Sequence[NewJob],
    *,
    promoting: bool = True,
    is_repeated: bool = False,
    notifies: bool = False,
    limits: Limits = NO_LIMITS,
    wait_seconds: int | None = None,
    rules: Mapping[UUID, Uniqueness] = MappingProxyType({}),
    raises: bool = True,
) -> Operation[Enqueued]:
    """Insert the jobs, all or none.

    With `promoting`, the transaction is Steady Queue's own and limited jobs get their slots in it. Otherwise they stay
    blocked, and `Enqueued.blocked` must be admitted after the commit. `is_repeated` makes it safe after a lost reply:
    jobs that exist are not inserted again. `wait_seconds` limits the wait for concurrency keys that other transactions
    have locked; after it, the operation fails with a lock timeout and can be repeated with `promoting=False`.
    `notifies` lets the statement that inserts one ready job notify the listeners as well. `rules` says how unique jobs
    take their keys; with `raises`, a job whose key is taken is a DuplicateTask, otherwise it is skipped.
    """
    if sql.single_statements is not None and not is_repeated and are_plain(jobs) and len(_chunks(jobs)) == 1:
        if notifies and len(jobs) == 1:
            flow = partial(_insert_and_notify, sql.single_statements, jobs[0])
            return Operation("enqueue", flow, transaction=False)
        return Operation("enqueue", partial(_insert_all_ready, sql.single_statements, jobs), transaction=False)
    retries = wait_seconds is None or all(job.concurrency_key is None for job in jobs)
    return Operation(
        "enqueue",
        partial(_enqueue, sql, jobs, promoting, is_repeated, limits, wait_seconds, rules, raises),
        retries_lock_timeout=retries,
    )


def admit(
    sql: Dialect,
    blocked: Sequence[NewJob],
    limits: Limits = NO_LIMITS,
    *,
    freed: Mapping[str, int] = MappingProxyType({}),
    wait_seconds: int | None = None,
) -> Operation[frozenset[UUID]]:
    """Grant free slots to blocked jobs, after they were committed; returns those discarded instead.

    The keys in `freed`, which have lost a slot, are promoted as well.
    """
    flow = partial(_admit, sql, blocked, limits, wait_seconds, freed)
    return Operation("admit", flow, retries_lock_timeout=wait_seconds is None)


def _insert_all_ready(statements: SingleStatements, jobs: Sequence[NewJob]) -> Flow[Enqueued]:
    """One statement, which is enough for most calls."""
    yield statements.insert_ready(jobs)
    return _ALL_READY


def _insert_and_notify(statements: SingleStatements, job: NewJob) -> Flow[Enqueued]:
    yield statements.insert_and_notify(job)
    return _READY_AND_NOTIFIED


def _enqueue(
    sql: Dialect,
    jobs: Sequence[NewJob],
    promoting: bool,
    is_repeated: bool,
    limits: Limits,
    wait_seconds: int | None,
    rules: Mapping[UUID, Uniqueness],
    raises: bool,
) -> Flow[Enqueued]:
    if not jobs or (is_repeated and (yield from _is_any_stored(sql, jobs))):
        return Enqueued()
    if any(job.unique_key is not None for job in jobs):
        resolved = yield from resolve_duplicates(sql, jobs, rules, limits, owns_transaction=promoting, raises=raises)
        stored = yield from _insert(sql, resolved.jobs, promoting, limits, wait_seconds, resolved.freed)
        return replace(
            stored,
            existing=resolved.existing,
            records=resolved.records,
            skipped=frozenset(resolved.skipped),
            replaced=resolved.replaced,
        )
    return (yield from _insert(sql, jobs, promoting, limits, wait_seconds))


def _insert(
    sql: Dialect,
    jobs: Sequence[NewJob],
    promoting: bool,
    limits: Limits,
    wait_seconds: int | None,
    freed: Mapping[str, int] = MappingProxyType({}),
) -> Flow[Enqueued]:
    ready, scheduled, blocked = yield from _sort_by_status(sql, jobs)
    for chunk in _chunks(ready):
        yield from _insert_ready(sql, chunk)
    for chunk in _chunks(scheduled):
        yield from _insert_scheduled(sql, chunk)
    for chunk in _chunks(blocked):
        yield from _insert_blocked(sql, chunk)
    yield from insert_expiries(sql, jobs)
    if not promoting:
        return Enqueued(blocked=blocked, freed=freed)
    return Enqueued(discarded=(yield from _admit(sql, blocked, limits, wait_seconds, freed)))


def _is_any_stored(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[bool]:
    """Whether an earlier try was committed. Any job proves it: they were inserted together, and some may be deleted."""
    text = f"SELECT id FROM steady_queue_job{sql.by_id} WHERE id IN ?* LIMIT 1"
    for at in range(0, len(jobs), INSERT_ROWS):
        ids = [job.id for job in jobs[at : at + INSERT_ROWS]]
        if (yield sql.statement(text, ids, returns="u")):
            return True
    return False


def _admit(
    sql: Dialect, blocked: Sequence[NewJob], limits: Limits, wait_seconds: int | None, freed: Mapping[str, int]
) -> Flow[frozenset[UUID]]:
    keys = {
        **freed,
        **{
            job.concurrency_key: limit_in_force(limits, job.task_path, job.concurrency_limit)
            for job in blocked
            if job.concurrency_key is not None
        },
    }
    yield from promote.flow(sql, keys, limits, wait_seconds)
    discardable = [job.id for job in blocked if job.on_conflict == OnConflict.DISCARD]
    return (yield from discard_without_slot(sql, discardable))


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """Whether the jobs are ready at once, and have rows in no other table than `job` and `readyexecution`."""
    for job in jobs:
        if job.scheduled_at is not None or job.concurrency_key is not None:
            return False
        if job.expires_at is not None or job.unique_key is not None:
            return False
    return True


def _sort_by_status(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[tuple[list[NewJob], list[NewJob], list[NewJob]]]:
    """The ready, the scheduled and the blocked jobs. The database's clock decides which are due."""
    now: datetime | None = None
    if any(job.scheduled_at is not None for job in jobs):
        now = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0][0]
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
    """The jobs in chunks that are inserted together."""
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
    yield sql.statement_each(
        "INSERT INTO steady_queue_readyexecution (job_id, queue_name, lane, priority) VALUES (?, ?, ?, ?)",
        [(job.id, job.queue_name, job.lane, job.priority) for job in jobs],
    )


def _insert_scheduled(sql: Dialect, jobs: Sequence[NewJob]) -> Flow[None]:
    if sql.single_statements:
        yield sql.single_statements.insert_scheduled(jobs)
        return
    yield from _insert_jobs(sql, jobs)
    yield sql.statement_each(
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
    yield sql.statement_each(
        f"INSERT INTO steady_queue_job ({', '.join(JOB_COLUMNS[:width])}) VALUES ({', '.join('?' * width)})",
        [job[:width] for job in jobs],
    )
