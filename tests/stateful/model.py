"""The model: the expected state after each operation, without a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from steady_queue.store.job import FailureKind, OnConflict, Status
from steady_queue.store.operations.corrections import COLUMNS
from steady_queue.store.outcome import Failed, Finished, Released, Retried, Snoozed, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import Claim, NewJob
    from steady_queue.store.operations.claim import ClaimRequest
    from steady_queue.store.outcome import Outcome

#: The states in which a job can be discarded.
WAITING = (Status.SCHEDULED, Status.BLOCKED, Status.READY)
DISCARDABLE = (Status.SCHEDULED, Status.BLOCKED, Status.READY, Status.FAILED)


@dataclass(slots=True)
class Job:
    """A job that is committed."""

    new: NewJob
    status: Status
    #: When it is due, while it is scheduled.
    due: datetime | None = None
    claim_id: UUID | None = None
    owner: UUID | None = None
    #: Written by the owner's settle alone.
    last_claim_id: UUID | None = None
    attempts: int = 0
    #: Automatic ones, since it was enqueued or retried by hand.
    retries: int = 0
    #: Why it has failed.
    failure: FailureKind | None = None
    #: Whether run_now() gave its slot.
    is_manual: bool = False
    #: The hour in which it ended.
    ended: int = 0

    @property
    def place(self) -> tuple[int, UUID]:
        return -self.new.priority, self.new.id

    @property
    def holds(self) -> str | None:
        """The key of which it has a slot."""
        return self.new.concurrency_key if self.status in (Status.READY, Status.CLAIMED) else None


@dataclass(slots=True)
class Model:
    """The whole queue."""

    jobs: dict[UUID, Job] = field(default_factory=dict)
    #: Each process that is registered, with the hour of its last heartbeat.
    processes: dict[UUID, int] = field(default_factory=dict)
    pauses: set[str] = field(default_factory=set)
    #: The record of each tick: its job, and the hour in which it was made.
    ticks: dict[tuple[str, datetime], tuple[UUID, int]] = field(default_factory=dict)
    hour: int = 0
    #: The jobs that are requested to stop.
    requests: set[UUID] = field(default_factory=set)
    #: Jobs that a transaction still open has claimed.
    held: set[UUID] = field(default_factory=set)

    def those(self, *statuses: Status) -> list[Job]:
        """The jobs with these statuses, by priority, then age."""
        return sorted((job for job in self.jobs.values() if job.status in statuses), key=lambda job: job.place)

    # -- in ---------------------------------------------------------------------------------------------------------

    def store(self, jobs: Iterable[NewJob], now: datetime) -> list[NewJob]:
        """Insert the jobs; returns those that queue for a slot."""
        blocked = []
        for new in jobs:
            assert new.id not in self.jobs
            is_early = new.scheduled_at is not None and new.scheduled_at > now
            job = self.jobs[new.id] = Job(new, Status.SCHEDULED if is_early else self._first_status(new))
            if is_early:
                job.due = new.scheduled_at
            elif job.status is Status.BLOCKED:
                blocked.append(new)
        return blocked

    def _first_status(self, new: NewJob) -> Status:
        return Status.READY if new.concurrency_key is None else Status.BLOCKED

    def holder(self, key: str) -> Job | None:
        """The unfinished job that has a unique key."""
        unfinished = self.those(Status.SCHEDULED, Status.BLOCKED, Status.READY, Status.CLAIMED)
        found = [job for job in unfinished if job.new.unique_key == key]
        assert len(found) <= 1
        return found[0] if found else None

    def replace(self, holder: Job | None, new: NewJob, now: datetime, limits: Mapping[str, int]) -> frozenset[UUID]:
        """Store a unique job, for which another one may be deleted; returns it if it is discarded."""
        freed = set()
        if holder is not None:
            freed = {holder.holds} - {None}
            del self.jobs[holder.new.id]
        blocked = self.store([new], now)
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
            for job in self.those(Status.BLOCKED):
                if job.new.concurrency_key != key:
                    continue
                if taken >= self.limit_of(job, limits):
                    break
                job.status = Status.READY
                promoted.add(job.new.id)
                taken += 1
        return promoted

    def limit_of(self, job: Job, limits: Mapping[str, int]) -> int:
        return limits.get(job.new.task_path, job.new.concurrency_limit or 1)

    def blocked_keys(self) -> set[str]:
        return {str(job.new.concurrency_key) for job in self.those(Status.BLOCKED)}

    def dispatch(self, now: datetime, limit: int, limits: Mapping[str, int]) -> tuple[int, frozenset[UUID]]:
        """Returns how many were moved, and the discarded jobs."""
        due = [job for job in self.those(Status.SCHEDULED) if job.due is not None and job.due <= now]
        due = sorted(due, key=lambda job: (job.due, job.place))[:limit]
        self._enter_queue(due)
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
        self, ticks: Iterable[tuple[str, datetime, NewJob]], now: datetime, limits: Mapping[str, int]
    ) -> tuple[set[UUID], frozenset[UUID]]:
        """Ticks of enabled entries; returns the jobs that were enqueued, and those of them that were discarded."""
        last = {key: max((at for k, at in self.ticks if k == key), default=None) for key, _, _ in ticks}
        won = []
        for key, run_at, new in sorted(ticks, key=lambda tick: tick[:2]):
            before = last[key]
            if (before is None or run_at > before) and (key, run_at) not in self.ticks:
                self.ticks[key, run_at] = new.id, self.hour
                won.append(new)
        return {new.id for new in won}, self.admit(self.store(won, now), limits)

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
            case Snoozed():
                job.status, job.is_manual = Status.SCHEDULED, False
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

    def retry(self, ids: Iterable[UUID], limits: Mapping[str, int]) -> set[UUID]:
        failed: list[Job] = []
        taken: set[str] = set()
        for job in sorted(self._found(ids, Status.FAILED), key=lambda job: job.new.id):
            key = job.new.unique_key
            if key is None or (key not in taken and self.holder(key) is None):
                failed.append(job)
                taken.update(() if key is None else (key,))
        for job in failed:
            job.retries, job.failure = 0, None
            self.requests.discard(job.new.id)
        self.promote(self._enter_queue(failed), limits)
        return {job.new.id for job in failed}

    def retry_with(self, id_: UUID, new: NewJob, limits: Mapping[str, int]) -> set[UUID]:
        """Retry a job with the arguments, and so the key and the limit, of another."""
        for job in self._found([id_], Status.FAILED):
            job.new = job.new._replace(**{name: getattr(new, name) for name in COLUMNS})
        return self.retry([id_], limits)

    def discard(self, ids: Iterable[UUID], limits: Mapping[str, int]) -> set[UUID]:
        gone = self._found(ids, *DISCARDABLE)
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
            job.status, job.failure, job.ended = Status.FAILED, FailureKind.CANCELLED, self.hour
            job.due, job.is_manual = None, False
            self.requests.discard(job.new.id)
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
        for job in self.those(Status.SCHEDULED):
            if job.due is not None:
                job.due -= timedelta(hours=hours)

    def clear(self, status: Status) -> set[UUID]:
        """Delete what ended in an earlier hour."""
        old = {job.new.id for job in self.those(status) if job.ended < self.hour}
        for id_ in old:
            del self.jobs[id_]
        return old

    def clear_ticks(self) -> int:
        """Delete the records of earlier hours, but for the last one of each key."""
        last = {key: max(at for k, at in self.ticks if k == key) for key, _ in self.ticks}
        old = [(key, at) for (key, at), (_, made) in self.ticks.items() if made < self.hour and at != last[key]]
        for tick in old:
            del self.ticks[tick]
        return len(old)
