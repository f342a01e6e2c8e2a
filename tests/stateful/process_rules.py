"""Rules of processes that start, send heartbeats, stop sending them and exit, of maintenance, and of time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from steady_queue.store.job import FailureKind, Lane, Status
from steady_queue.store.operations.maintenance.steps import (
    clear_failed,
    clear_finished,
    free_ownerless,
    promote_stranded,
)
from steady_queue.store.operations.processes.lost_claims import fail
from steady_queue.store.operations.processes.prune import end_orphans, prune_exited_process, prune_process
from steady_queue.store.operations.processes.registration import deregister, heartbeat
from steady_queue.store.operations.recurring.ticks import clear_ticks
from steady_queue.store.outcome import Failed, Released, Retried
from tests.stateful.base import calm, some, step, which
from tests.stateful.clock import HALF, HOUR, make_rows_older
from tests.stateful.worker_rules import WorkerRules
from tests.support.store.jobs import report

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from steady_queue.store.job import Claim
    from steady_queue.store.operations.processes.lost_claims import Decide, SettledClaims
    from steady_queue.store.outcome import Outcome

MOST = 4
decisions = st.sampled_from([fail, lambda claim, error, _: Retried(claim, error, HALF.total_seconds())])


class ProcessRules(WorkerRules):
    # -- processes ----------------------------------------------------------------------------------------------------

    @step
    @rule(number=which, what=st.sampled_from(["start", "beat", "vanish"]))
    def live(self, number: int, what: str) -> None:
        """One that vanishes leaves its claims without an owner."""
        process_id = self.process_at(number)
        if what == "start" and len(self.model.processes) < MOST:
            self.new_process()
        elif what == "vanish":
            self.vanish(process_id)
        else:
            is_there = process_id in self.model.processes
            assert self.store.run(heartbeat(self.sql, process_id)).is_known is is_there
            if is_there:
                self.model.processes[process_id] = self.model.hour

    @step
    @rule(me=which, decide=decisions)
    def prune(self, me: int, decide: Decide) -> None:
        """End the jobs of processes without a recent heartbeat, one process after another; never the own ones."""
        mine = self.process_at(me)
        dead = {id_ for id_, hour in self.model.processes.items() if hour < self.model.hour and id_ != mine}
        while dead:  # all of them, because the database chooses the order
            pruned = self.store.run(
                prune_process(
                    self.sql, me=mine, report=lambda _: report(), alive=HALF, limits=self.limits, decide=decide
                )
            )
            assert pruned is not None
            dead.remove(pruned.process.id)
            assert _count(pruned.settled) == self.process_ends(pruned.process.id, decide=decide)
        assert self.store.run(prune_process(self.sql, me=mine, report=lambda _: report(), alive=HALF)) is None

    @step
    @rule(number=which, numbers=some, is_parent=st.booleans(), decide=decisions)
    def die(self, number: int, numbers: list[int], is_parent: bool, decide: Decide) -> None:
        """A process that certainly has ended. Its parent also knows which of its tasks may be released."""
        process_id = self.process_at(number)
        if not is_parent:
            pruned = self.store.run(
                prune_process(
                    self.sql,
                    me=uuid4(),
                    report=lambda _: report(),
                    only=[process_id],
                    limits=self.limits,
                    decide=decide,
                )
            )
            assert (pruned is not None) is (process_id in self.model.processes)
            assert pruned is None or _count(pruned.settled) == self.process_ends(process_id, decide=decide)
            return
        self.reap(process_id, {claim.claim_id for claim in self.claims_at(numbers)}, decide)

    @precondition(lambda self: self.may_write and self.live_claims())
    @rule(number=which)
    def take_over(self, number: int) -> None:
        """Release the claim of a process and claim the job for another; the first may still try to settle it."""
        live = self.live_claims()
        claim = live[number % len(live)]
        owner = self.model.jobs[claim.job_id].owner
        assert owner is not None
        self.reap(owner, {claim.claim_id})
        self.claim_for(self.new_process(), [Lane.ASYNC, Lane.THREAD], 100, None)

    @step
    @rule(number=which, vanishes=st.booleans(), decide=decisions)
    def end_orphans(self, number: int, vanishes: bool, decide: Decide) -> None:
        """Claims whose process has no row, perhaps since a moment ago."""
        live = self.live_claims()
        if vanishes and live:
            owner = self.model.jobs[live[number % len(live)].job_id].owner
            assert owner is not None
            self.vanish(owner)
        orphans = [claim for claim in live if self.model.jobs[claim.job_id].owner not in self.model.processes]
        assert _count(self.store.run(end_orphans(self.sql, report(), self.limits, decide))) == len(orphans)
        self.end_claims([self.lost(claim, decide) for claim in orphans])

    # -- the rest of a maintenance turn -------------------------------------------------------------------------------

    @step
    @rule()
    def sweep(self) -> None:
        """After it no job is blocked while its key has a free slot, and no slot is without an owner."""
        assert self.store.run(free_ownerless(self.sql, after=HALF, durations={}, limits=self.limits)) == 0
        promoted = self.model.promote(self.model.blocked_keys(), self.limits)
        assert self.store.run(promote_stranded(self.sql, limits=self.limits)) == (len(promoted), None)
        self.nothing_is_stuck()

    @step
    @rule()
    def clear(self) -> None:
        """Delete what ended in an earlier hour, and the records of old ticks."""
        for clear, status in ((clear_finished, Status.FINISHED), (clear_failed, Status.FAILED)):
            cleared = self.store.run(clear(self.sql, HALF))
            assert cleared is not None
            assert cleared.jobs == len(self.model.clear(status))
        now = self.store.now() + self.model.hour * HOUR
        assert self.store.run(clear_ticks(self.sql, now, HALF)) == self.model.ticks.clear(self.model.hour)

    # -- time ---------------------------------------------------------------------------------------------------------

    @calm
    @rule(hours=st.integers(1, 3))
    def advance_the_clock(self, hours: int) -> None:
        make_rows_older(self.alias, hours)
        self.model.advance(hours)

    # -- claims that other processes end ---------------------------------------------------------------------

    def process_at(self, number: int) -> UUID:
        return self.processes[number % len(self.processes)]

    def vanish(self, process_id: UUID) -> None:
        self.store.run(deregister(self.sql, process_id))
        self.model.processes.pop(process_id, None)

    def reap(self, process_id: UUID, back: set[UUID], decide: Decide = fail) -> None:
        owned = self.claims_of(process_id)
        settled = self.store.run(
            prune_exited_process(
                self.sql, process_id, "gone", report(), release=back, limits=self.limits, decide=decide
            )
        )
        released = [claim for claim in owned if claim.claim_id in back and claim.job_id not in self.model.requests]
        assert len(settled.released) == len(released)
        assert _count(settled) == self.process_ends(process_id, back, decide)

    def live_claims(self) -> list[Claim]:
        return [claim for claim in self.claims if self.model.is_live(claim)]

    def claims_of(self, process_id: UUID) -> list[Claim]:
        return [claim for claim in self.live_claims() if self.model.jobs[claim.job_id].owner == process_id]

    def process_ends(self, process_id: UUID, back: set[UUID] | None = None, decide: Decide = fail) -> int:
        """In the model; returns how many of its claims failed or were retried."""
        outcomes = [self.lost(claim, decide, back or ()) for claim in self.claims_of(process_id)]
        self.model.processes.pop(process_id, None)
        self.end_claims(outcomes)
        return sum(not isinstance(outcome, Released) for outcome in outcomes)

    def lost(self, claim: Claim, decide: Decide, back: Collection[UUID] = ()) -> Outcome:
        """How a claim ends that its process has lost: one that is to be cancelled is neither released nor retried."""
        if claim.job_id in self.model.requests:
            return Failed(claim, report(), kind=FailureKind.CANCELLED)
        return Released(claim) if claim.claim_id in back else decide(claim, report(), "gone")

    def end_claims(self, outcomes: Sequence[Outcome]) -> None:
        self.model.settle(outcomes, self.limits, by_owner=False)
        for outcome in outcomes:
            self.history.end(outcome.claim.claim_id, type(outcome).__name__.lower())
        self.read_due_times()
        self.resolve_doubtful()


def _count(settled: SettledClaims) -> int:
    return len(settled.failed) + len(settled.retried) + len(settled.cancelled)
