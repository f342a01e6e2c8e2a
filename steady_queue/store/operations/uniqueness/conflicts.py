"""Uniqueness: which of new jobs are stored, and what happens to those whose unique key is taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from steady_queue.errors import DuplicateTask, StoreConflict
from steady_queue.store.job import OnDuplicate, Status, Uniqueness, Until
from steady_queue.store.operations.actions.job_actions import WAITING, free_slots
from steady_queue.store.operations.results import find_jobs
from steady_queue.store.operations.uniqueness.unique_keys import KeyRequest, assign_keys, take_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import JobRecord, NewJob
    from steady_queue.store.operations.promote import Limits
    from steady_queue.store.operations.uniqueness.unique_keys import KeyHolder
    from steady_queue.store.sql import Dialect
    from steady_queue.store.statement import Flow

_WAITING_STATUSES = (Status.SCHEDULED, Status.BLOCKED, Status.READY)
#: Ids that the message of an error names.
MAX_NAMED = 5


@dataclass(slots=True)
class Resolved:
    """What happens to new jobs of which some are unique."""

    #: Those to be stored.
    jobs: list[NewJob] = field(default_factory=list)
    #: The job that each of the others stands for, by the id of the new one.
    existing: dict[UUID, UUID] = field(default_factory=dict)
    records: dict[UUID, JobRecord] = field(default_factory=dict)
    #: New jobs that are not stored.
    skipped: set[UUID] = field(default_factory=set)
    #: Jobs that waited, and were deleted for new ones.
    replaced: list[UUID] = field(default_factory=list)
    #: The concurrency keys of their slots.
    freed: dict[str, int] = field(default_factory=dict)


def resolve_duplicates(
    sql: Dialect,
    jobs: Sequence[NewJob],
    rules: Mapping[UUID, Uniqueness],
    limits: Limits,
    *,
    owns_transaction: bool,
    raises: bool,
) -> Flow[Resolved]:
    """Take the unique keys of the jobs. Raises DuplicateTask if `raises`; otherwise such jobs are skipped."""
    done = Resolved()
    chosen, conflicts = _choose(jobs, rules, done)
    requests = yield from _build_requests(sql, list(chosen.values()), rules)
    replaces = any(_rule_of(job, rules).on_duplicate == OnDuplicate.REPLACE for job in chosen.values())
    taken = yield from take_keys(sql, requests.values(), locks=replaces, owns_transaction=owns_transaction)
    for key, holder in taken.items():
        new = chosen[key]
        match _rule_of(new, rules).on_duplicate:
            case OnDuplicate.RETURN_EXISTING:
                done.existing[new.id] = holder.job_id
            case OnDuplicate.SKIP:
                done.skipped.add(new.id)
            case OnDuplicate.REPLACE if (
                yield from _replace(sql, requests[key], holder, limits, done, owns_transaction)
            ):
                pass
            case _:
                conflicts[new.id] = holder.job_id
    yield from _read_existing(sql, jobs, done, conflicts, owns_transaction)
    if conflicts and raises:
        raise _duplicate_error(jobs, conflicts, rules)
    done.skipped.update(conflicts)
    # A call of the same batch may stand for one that stands for an older job, or was not stored.
    for id_, other in list(done.existing.items()):
        done.existing[id_] = done.existing.get(other, other)
        if other in done.skipped:
            done.skipped.add(id_)
    done.jobs = [job for job in jobs if job.id not in done.existing and job.id not in done.skipped]
    return done


def _choose(
    jobs: Sequence[NewJob], rules: Mapping[UUID, Uniqueness], done: Resolved
) -> tuple[dict[str, NewJob], dict[UUID, UUID]]:
    """The job of this batch that takes each key; and those that conflict with another job of the batch."""
    chosen: dict[str, NewJob] = {}
    conflicts: dict[UUID, UUID] = {}
    for job in jobs:
        if job.unique_key is None:
            continue
        first = chosen.setdefault(job.unique_key, job)
        if first is job:
            continue
        match _rule_of(job, rules).on_duplicate:
            case OnDuplicate.RETURN_EXISTING:
                done.existing[job.id] = first.id
            case OnDuplicate.SKIP:
                done.skipped.add(job.id)
            case OnDuplicate.REPLACE:
                done.skipped.add(first.id)
                chosen[job.unique_key] = job
            case _:
                conflicts[job.id] = first.id
    return chosen, conflicts


def _rule_of(job: NewJob, rules: Mapping[UUID, Uniqueness]) -> Uniqueness:
    until = Until.FINISHED if job.unique_until is None else job.unique_until
    return rules.get(job.id) or Uniqueness(until, OnDuplicate.REJECT)


def _build_requests(
    sql: Dialect, jobs: Sequence[NewJob], rules: Mapping[UUID, Uniqueness]
) -> Flow[dict[str, KeyRequest]]:
    now: datetime | None = None
    if any(_rule_of(job, rules).within is not None for job in jobs):
        now = (yield sql.statement(f"SELECT {sql.now}", returns="t"))[0][0]
    requests: dict[str, KeyRequest] = {}
    for job in jobs:
        rule = _rule_of(job, rules)
        held = None if now is None or rule.within is None else now + timedelta(microseconds=rule.within)
        requests[str(job.unique_key)] = KeyRequest(str(job.unique_key), job.id, rule.until, held)
    return requests


def _replace(
    sql: Dialect, request: KeyRequest, holder: KeyHolder, limits: Limits, done: Resolved, owns_transaction: bool
) -> Flow[bool]:
    """Delete the job that has the key, if it waits; the new one gets the key. False if it cannot be replaced."""
    table = yield from _lock_waiting(sql, holder.job_id, owns_transaction)
    if table is None:
        found = yield from find_jobs.flow(sql, [holder.job_id])
        if owns_transaction and _is_changing(holder, found):
            # It is being claimed, dispatched or ended just now: the driver starts the operation again.
            raise StoreConflict(f"the task {holder.job_id}, which is to be replaced, is being changed")
        return False
    yield sql.delete(table, [holder.job_id])
    done.freed |= yield from free_slots(sql, [holder.job_id], limits)
    yield sql.delete("job", [holder.job_id])
    yield from assign_keys(sql, [request])
    done.replaced.append(holder.job_id)
    return True


def _is_changing(holder: KeyHolder, found: Sequence[JobRecord]) -> bool:
    """Whether the job changes now, or has changed since its key was read: then the key may be free."""
    status = found[0].status if found else None
    if status in _WAITING_STATUSES:
        return True  # another transaction has locked its row
    if holder.is_held:
        return False
    return status is not Status.CLAIMED or holder.until == Until.STARTED


def _lock_waiting(sql: Dialect, job_id: UUID, owns_transaction: bool) -> Flow[str | None]:
    """The table in which the job waits, with its row locked; None if it does not wait, or its row is locked.

    A claim that is not committed has locked it, for example. To wait for it could be a deadlock.
    """
    tables: Sequence[str] = WAITING
    if sql.locks_gaps and not owns_transaction:
        # As long as the snapshot shows where it waits, no gap is locked.
        for table in WAITING:
            rows = yield sql.select(table, "job_id", [job_id], returns="u")
            if rows:
                tables = (table, *(other for other in WAITING if other != table))
                break
    for table in tables:
        rows = yield sql.lock(table, "job_id", [job_id], skip_locked=True, returns="u")
        if rows:
            return table
    return None


def _read_existing(
    sql: Dialect, jobs: Sequence[NewJob], done: Resolved, conflicts: dict[UUID, UUID], owns_transaction: bool
) -> Flow[None]:
    """Read the jobs that new ones stand for. One that no longer exists cannot be returned: its key is only held."""
    new_ids = {job.id for job in jobs} if done.existing else ()
    ids = list(dict.fromkeys(other for other in done.existing.values() if other not in new_ids))
    found = yield from find_jobs.flow(sql, ids)
    done.records = {record.id: record for record in found}
    if sql.locks_gaps and not owns_transaction:
        return  # an old snapshot may not have it
    for id_, other in list(done.existing.items()):
        if other in ids and other not in done.records:
            del done.existing[id_]
            conflicts[id_] = other


def _duplicate_error(
    jobs: Sequence[NewJob], conflicts: Mapping[UUID, UUID], rules: Mapping[UUID, Uniqueness]
) -> DuplicateTask:
    new = {job.id for job in jobs}
    first = next(job for job in jobs if job.id in conflicts)
    others = list(dict.fromkeys(str(other) for other in conflicts.values() if other not in new))
    what = f"{first.task_path} was" if len(jobs) == 1 else f"{len(jobs)} tasks were"
    holder = f"is taken by the task {', '.join(others[:MAX_NAMED])}" if others else "occurs twice in one call"
    key = "of all arguments" if _rule_of(first, rules).is_digest else repr(first.unique_key)
    return DuplicateTask(f"{what} not stored: the unique key {key} {holder}", existing_ids=others)
