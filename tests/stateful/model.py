"""The model: the expected state after each operation, without a database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from steady_queue.store.job import FailureKind, OnConflict, Status
from steady_queue.store.operations.actions.corrections import COLUMNS
from steady_queue.store.outcome import Failed, Finished, Released, Retried, Snoozed, Verdict
from tests.stateful.model_job import WAITING, Job
from tests.stateful.model_keys import UniqueKeys
from tests.stateful.model_ticks import Ticks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.operations.claim import ClaimRequest
    from steady_queue.store.outcome import Outcome
    from tests.stateful.model_keys import Key


@dataclass(slots=True)
class Model:
    """The whole queue, at a time that stays the same: the rows are made older instead."""

    now: datetime
    jobs: dict[UUID, Job] = field(default_factory=dict)
    #: Each process that is registered, with the hour of its last heartbeat.
    processes: dict[UUID, int] = field(default_factory=dict)
    pauses: set[str] = field(default_factory=set)
    ticks: Ticks = field(default_factory=Ticks)
    keys: UniqueKeys = field(default_factory=UniqueKeys)
    #: The rows of jobs that expire, also of those that have been started or deleted, until the sweep has seen them.
    expiries: dict[UUID, datetime] = field(default_factory=dict)
    hour: int = 0
    #: The jobs that are requested to stop.
    requests: set[UUID] = field(default_factory=set)
    #: Jobs that a transaction still open has claimed.
    held: set[UUID] = field(default_factory=set)
    #: Blocked jobs that have expired: a promotion ends them or not, depending on how many rows it reads at once.
    doubtful: set[UUID] = field(default_factory=set)
    #: How often a job has expired, or lost its unique key, while it waited.
    ended_waiting: Counter[UUID] = field(default_factory=Counter)
    #: The jobs that the last settle or retry found without their unique keys, each with the one that has it.
    displaced: dict[UUID, UUID] = field(default_factory=dict)

    def those(self, *statuses: Status) -> list[Job]:
        """The jobs with these statuses, by priority, then age."""
        return sorted((job for job in self.jobs.values() if job.status in statuses), key=lambda job: job.place)

    # -- in ---------------------------------------------------------------------------------------------------------

    def store(self, jobs: Iterable[NewJob]) -> list[NewJob]:
        """Insert the jobs; returns those that queue for a slot."""
        blocked = []
        for new in jobs:
            assert new.id not in self.jobs
            is_early = new.scheduled_at is not None and new.scheduled_at > self.now
            status = Status.SCHEDULED if is_early else self._first_status(new)
            job = self.jobs[new.id] = Job(new, status, new.expires_at)
            if new.expires_at is not None:
                self.expiries[new.id] = new.expires_at
            if is_early:
                job.due = new.scheduled_at
            elif job.status is Status.BLOCKED:
                blocked.append(new)
        return blocked

    def _first_status(self, new: NewJob) -> Status:
        return Status.READY if new.concurrency_key is None else Status.BLOCKED

    def replace(self, holder: Job | None, new: NewJob, key: Key, limits: Mapping[str, int]) -> frozenset[UUID]:
        """Store a unique job, for which another one may be deleted; returns it if it is discarded."""
        self.keys.rows[str(new.unique_key)] = key
        freed = set()
        if holder is not None:
            freed = {holder.holds} - {None}
            del self.jobs[holder.new.id]
        blocked = self.store([new])
        self.promote({str(key) for key in freed}, limits)
        return self.admit(blocked, limits)

    def admit(self, blocked: Sequence[NewJob], limits: Mapping[str, int]) -> frozenset[UUID]:
        """Promote their keys, and discard those that discard on conflict; returns these."""
        self.promote({new.concurrency_key for new in blocked if new.concurrency_key is not None}, limits)
        refused = frozenset(
            new.id
            for new in blocked
            if new.on_conflict == OnConflict.DISCARD and self.jobs[new.id].status is Status.BLOCKED
        )
        for id_ in refused:
            del self.jobs[id_]
        return refused

    def promote(self, keys: Collection[str], limits: Mapping[str, int]) -> set[UUID]:
        """Allocate free slots; returns the jobs that got one."""
        promoted = set()
        for key in keys:
            taken = sum(job.holds == key for job in self.jobs.values())
            is_full = False
            for job in self.those(Status.BLOCKED):
                if job.new.concurrency_key != key:
                    continue
                if self.is_expired(job):
                    self.doubtful.add(job.id)
                    if not is_full:
                        self.resolve_doubtful({job.id})
                    continue
                is_full = is_full or taken >= self.limit_of(job, limits)
                if not is_full:
                    job.status = Status.READY
                    promoted.add(job.new.id)
                    taken += 1
        return promoted

    def is_expired(self, job: Job) -> bool:
        return job.expires_at is not None and job.expires_at <= self.now and job.attempts == 0

    def end_waiting(self, jobs: Iterable[Job], failure: FailureKind) -> set[str]:
        """Jobs end while they wait, not by an action; returns the keys whose slots are freed."""
        freed = set()
        for job in jobs:
            if job.holds is not None:
                freed.add(job.holds)
            job.end(failure, self.hour)
            self.ended_waiting[job.id] += 1
        return freed

    def resolve_doubtful(self, ended: Collection[UUID]) -> None:
        """Of the jobs that a promotion may have ended, those that it has."""
        found = self.doubtful.intersection(ended)
        self.end_waiting(self._found(found, Status.BLOCKED), FailureKind.EXPIRED)
        self.doubtful -= found

    def sweep_expired(self, limits: Mapping[str, int]) -> tuple[set[UUID], int]:
        """Returns the jobs that have expired since the last sweep, and how many it promoted."""
        passed = {id_ for id_, at in self.expiries.items() if at <= self.now}
        late = [job for job in self._found(passed, *WAITING) if self.is_expired(job)]
        passed -= {job.id for job in late if job.id in self.held}
        freed = self.end_waiting([job for job in late if job.id in passed], FailureKind.EXPIRED)
        for id_ in passed:
            del self.expiries[id_]
        expired = {job.id for job in self._found(passed, Status.FAILED) if job.failure is FailureKind.EXPIRED}
        return expired, len(self.promote(freed, limits))

    def limit_of(self, job: Job, limits: Mapping[str, int]) -> int:
        return limits.get(job.new.task_path, job.new.concurrency_limit or 1)

    def blocked_keys(self) -> set[str]:
        return {str(job.new.concurrency_key) for job in self.those(Status.BLOCKED)}

    def dispatch(self, limit: int, limits: Mapping[str, int]) -> tuple[int, frozenset[UUID]]:
        """Returns how many were moved, and the discarded jobs."""
        due = [job for job in self.those(Status.SCHEDULED) if job.due is not None and job.due <= self.now]
        due = sorted(due, key=lambda job: (job.due, job.place))[:limit]
        self.end_waiting([job for job in due if self.is_expired(job)], FailureKind.EXPIRED)
        self._enter_queue(job for job in due if job.status is Status.SCHEDULED)
        return len(due), self.admit([job.new for job in due if job.status is Status.BLOCKED], limits)

    def _enter_queue(self, jobs: Iterable[Job]) -> set[str]:
        """Ready, or queueing for a slot; returns the keys to be promoted."""
        keys = set()
        for job in jobs:
            job.status, job.due = self._first_status(job.new), None
            if job.status is Status.BLOCKED:
                keys.add(str(job.new.concurrency_key))
        return keys

    def tick(
        self, ticks: Sequence[tuple[str, datetime, NewJob]], limits: Mapping[str, int]
    ) -> tuple[set[UUID], frozenset[UUID]]:
        """Ticks of enabled entries; returns the jobs that were enqueued, and those of them that were discarded."""
        won = self.ticks.record(ticks, self.hour)
        return {new.id for new in won}, self.admit(self.store(won), limits)

    # -- out --------------------------------------------------------------------------------------------------------

    def wanted(self, *requests: ClaimRequest) -> list[UUID]:
        """The jobs to be claimed, in order; none from all queues while any queue is paused."""
        found: list[UUID] = []
        if not requests[0].queues and self.pauses:
            return found
        for request in requests:
            if request.process_id in self.processes:
                found += self._wanted(request)
        return found

    def _wanted(self, request: ClaimRequest) -> list[UUID]:
        fit = [
            job
            for job in self.those(Status.READY)
            if job.new.lane == request.lane and job.new.queue_name not in self.pauses and job.new.id not in self.held
        ]
        if request.queues:
            order = list(request.queues)
            fit = [job for job in fit if job.new.queue_name in order]
            fit.sort(key=lambda job: order.index(job.new.queue_name))
        return [job.new.id for job in fit][: request.capacity]

    def claim(self, claims: Iterable[Claim], process_id: UUID) -> None:
        for claim in claims:
            job = self.jobs[claim.job_id]
            assert job.status is Status.READY
            job.status, job.claim_id, job.owner = Status.CLAIMED, claim.claim_id, process_id

    def is_live(self, claim: Claim) -> bool:
        job = self.jobs.get(claim.job_id)
        return job is not None and job.status is Status.CLAIMED and job.claim_id == claim.claim_id

    def settle(
        self, outcomes: Sequence[Outcome], limits: Mapping[str, int], *, preserve: bool = True, by_owner: bool = True
    ) -> dict[UUID, Verdict]:
        verdicts: dict[UUID, Verdict] = {}
        freed: set[str] = set()
        for outcome in outcomes:
            claim = outcome.claim
            if not self.is_live(claim):
                continue
            verdicts[claim.claim_id] = Verdict.APPLIED
            if claim.concurrency_key is not None and not isinstance(outcome, Released):
                freed.add(claim.concurrency_key)
            self._settled(self.jobs[claim.job_id], outcome, preserve, by_owner)
        again = [o.claim.job_id for o in outcomes if o.claim.claim_id in verdicts]
        self.displaced = self.keys.retake(self._found(again, *WAITING), self)
        freed |= self.end_waiting(self._found(self.displaced, *WAITING), FailureKind.CANCELLED)
        self.promote(freed, limits)
        for claim in (outcome.claim for outcome in outcomes if outcome.claim.claim_id not in verdicts):
            job = self.jobs.get(claim.job_id)
            is_repeated = job is None or job.last_claim_id == claim.claim_id
            verdicts[claim.claim_id] = Verdict.REPEATED if is_repeated else Verdict.FENCED
        return verdicts

    def _settled(self, job: Job, outcome: Outcome, preserve: bool, by_owner: bool) -> None:
        match outcome:
            case Released():
                job.status = Status.READY
                job.expires_at = None if outcome.was_started else job.expires_at
            case Snoozed():
                job.status, job.is_manual = Status.SCHEDULED, False
                job.expires_at = None if outcome.was_started else job.expires_at
            case Finished() if not preserve:
                del self.jobs[job.new.id]
            case _:
                self._end_attempt(job, outcome)
                if by_owner:
                    job.last_claim_id = job.claim_id
        job.claim_id = job.owner = None

    def _end_attempt(self, job: Job, outcome: Finished | Failed | Retried) -> None:
        job.ended, job.is_manual = self.hour, False
        job.attempts += 0 if isinstance(outcome, Failed) and not outcome.is_attempt else 1
        match outcome:
            case Finished():
                job.status = Status.FINISHED
            case Failed():
                job.status, job.failure = Status.FAILED, outcome.kind
                if outcome.kind is FailureKind.CANCELLED:
                    self.requests.discard(job.new.id)
            case Retried():
                # The database decides by its own clock when it is due.
                job.status, job.due, job.retries = Status.SCHEDULED, None, job.retries + 1

    # -- actions ----------------------------------------------------------------------------------------------------

    def retry(self, ids: Iterable[UUID], limits: Mapping[str, int], *, sees_deleted: bool = True) -> set[UUID]:
        failed = self._found(ids, Status.FAILED)
        self.displaced = self.keys.retake(failed, self, sees_deleted=sees_deleted)
        failed = [job for job in failed if job.id not in self.displaced]
        for job in failed:
            job.retries, job.failure, job.expires_at = 0, None, None
            self.requests.discard(job.new.id)
        self.promote(self._enter_queue(failed), limits)
        return {job.new.id for job in failed}

    def retry_with(self, id_: UUID, new: NewJob, limits: Mapping[str, int]) -> set[UUID]:
        """Retry a job with the arguments, and so the key and the limit, of another."""
        for job in self._found([id_], Status.FAILED):
            job.new = job.new._replace(**{name: getattr(new, name) for name in COLUMNS})
        return self.retry([id_], limits)

    def discard(self, ids: Iterable[UUID], limits: Mapping[str, int]) -> set[UUID]:
        gone = self._found(ids, *WAITING, Status.FAILED)
        freed = {job.holds for job in gone if job.holds is not None}
        for job in gone:
            del self.jobs[job.new.id]
        self.promote(freed, limits)
        return {job.new.id for job in gone}

    def cancel(self, ids: Iterable[UUID], limits: Mapping[str, int]) -> tuple[set[UUID], set[UUID]]:
        """Returns the jobs that have ended, and those that are requested to stop."""
        waiting, running = self._found(ids, *WAITING), self._found(ids, Status.CLAIMED)
        freed = {job.holds for job in waiting if job.holds is not None}
        for job in waiting:
            job.end(FailureKind.CANCELLED, self.hour)
            self.requests.discard(job.new.id)
            self.expiries.pop(job.new.id, None)
        requested = {job.new.id for job in running}
        self.requests |= requested
        self.promote(freed, limits)
        return {job.new.id for job in waiting}, requested

    def resolve_requests(self, limits: Mapping[str, int]) -> set[UUID]:
        """Returns the jobs that have ended."""
        ended, running = self.cancel(sorted(self.requests), limits)
        self.requests &= running
        return ended

    def run_now(self, ids: Iterable[UUID], limits: Mapping[str, int]) -> set[UUID]:
        scheduled, blocked = self._found(ids, Status.SCHEDULED), self._found(ids, Status.BLOCKED)
        keys = self._enter_queue(scheduled)
        for job in blocked:
            job.status, job.is_manual = Status.READY, True
        self.promote(keys, limits)
        return {job.new.id for job in (*scheduled, *blocked)}

    def _found(self, ids: Iterable[UUID], *statuses: Status) -> list[Job]:
        return [self.jobs[id_] for id_ in ids if id_ in self.jobs and self.jobs[id_].status in statuses]

    # -- time and retention --------------------------------------------------------------------------------------------

    def advance(self, hours: int) -> None:
        self.hour += hours
        passed = timedelta(hours=hours)
        for job in self.jobs.values():
            job.due = job.due and job.due - passed
            job.expires_at = job.expires_at and job.expires_at - passed
        self.expiries = {id_: at - passed for id_, at in self.expiries.items()}

    def clear(self, status: Status) -> set[UUID]:
        """Delete what ended in an earlier hour."""
        old = {job.new.id for job in self.those(status) if job.ended < self.hour}
        for id_ in old:
            del self.jobs[id_]
        return old
