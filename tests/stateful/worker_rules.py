"""Rules of workers: claim, settle in every way, early or late, release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import connections
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from steady_queue.jobs.definition.expiry import refuse_expired
from steady_queue.store.job import FailureKind, Lane, Status
from steady_queue.store.operations.claim import ClaimRequest, claim, claim_from_all
from steady_queue.store.operations.processes.prune import release_claims
from steady_queue.store.outcome import Finished, Released, Snoozed, Verdict
from tests.stateful.base import QUEUES, some, step, which
from tests.stateful.clock import HALF
from tests.stateful.enqueue_rules import EnqueueRules
from tests.support.store.jobs import failed, retried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from uuid import UUID

    from steady_queue.store.job import Claim
    from steady_queue.store.outcome import Outcome
    from tests.support.store.stores import Store

lists = st.one_of(st.none(), st.lists(st.sampled_from(QUEUES), min_size=1, max_size=4))
lanes = st.sampled_from([(Lane.ASYNC,), (Lane.THREAD,), (Lane.ASYNC, Lane.THREAD)])
#: Ways to settle, and the outcome of each.
OUTCOMES: dict[str, Callable[[Claim], Outcome]] = {
    "finished": Finished,
    "failed": failed,
    "exhausted": lambda claim: failed(claim, kind=FailureKind.EXHAUSTED),
    "refused": lambda claim: failed(claim, kind=FailureKind.EXPIRED, is_attempt=False),
    "cancelled": lambda claim: failed(claim, kind=FailureKind.CANCELLED),
    "retried": retried,
    "snoozed": lambda claim: Snoozed(claim, (3 * HALF).total_seconds(), was_started=True),
    "unknown": lambda claim: Snoozed(claim, (3 * HALF).total_seconds()),
    "released": Released,
    "interrupted": lambda claim: Released(claim, was_started=True),
}
WAYS = tuple(OUTCOMES)
ways = st.lists(st.sampled_from(WAYS), min_size=4, max_size=4)


class WorkerRules(EnqueueRules):
    @step
    @rule(number=which, lanes=lanes, limit=st.integers(1, 4), queues=lists)
    def claim(self, number: int, lanes: Sequence[Lane], limit: int, queues: list[str] | None) -> None:
        """Also by a process that was pruned, which gets nothing."""
        self.claim_for(self.any_process(number), lanes, limit, queues)

    claim_again = claim_more = claim

    # Not on MariaDB, which also locks the row after the last that it takes: other claims miss that row or wait.
    @precondition(lambda self: self.is_any_open and connections[self.alias].vendor != "mysql")
    @rule(number=which, session=which, limit=st.integers(1, 4), queues=lists)
    def claim_in_a_transaction(self, number: int, session: int, limit: int, queues: list[str] | None) -> None:
        """A claim that is not committed yet: other claims must neither wait for it nor claim the same jobs."""
        opened = self.open_session(session)
        pending = self.pending[opened]
        if pending.rows:  # it would see its own jobs, which the model does not
            return
        process_id = self.any_process(number)
        request = ClaimRequest(process_id, Lane.ASYNC, limit, queues or ())
        wanted = self.model.wanted(request)
        claims = opened.do(lambda store: _claims(store, request))
        assert [claim.job_id for claim in claims] == wanted
        self.model.held.update(wanted)
        pending.claims += claims
        # Last of all: with an enqueue after it, it is still the claim of these jobs alone.
        pending.afterwards.append(lambda: self.claimed(claims, process_id))

    @precondition(lambda self: self.may_write and self.claims)
    @rule(numbers=some, ways=ways, preserve=st.sampled_from([True, True, False]))
    def settle(self, numbers: list[int], ways: list[str], preserve: bool) -> None:
        """Any claims, also those that ended long ago or were released: these change nothing."""
        claims = self.claims_at(numbers)
        # As a worker does: a task that has expired when it is claimed is not started.
        ways = [
            "refused" if way != "released" and refuse_expired(claim) else way
            for claim, way in zip(claims, ways, strict=False)
        ]
        outcomes = [OUTCOMES[way](claim) for claim, way in zip(claims, ways, strict=True)]
        settled = self.store.settle(*outcomes, preserve=preserve, limits=self.limits)
        assert settled.verdicts == self.model.settle(outcomes, self.limits, preserve=preserve)
        assert settled.displaced == self.model.displaced
        for outcome, way in zip(outcomes, ways, strict=True):
            if settled.verdicts[outcome.claim.claim_id] is Verdict.APPLIED:
                self.history.end(outcome.claim.claim_id, way)
        self.read_due_times()

    settle_again = settle_more = settle

    @precondition(lambda self: self.may_write and self.zombies())
    @rule(number=which, way=st.sampled_from(WAYS))
    def settle_too_late(self, number: int, way: str) -> None:
        """A lost claim whose job another process has claimed: the fence."""
        zombies = self.zombies()
        zombie = zombies[number % len(zombies)]
        verdict = self.store.settle(OUTCOMES[way](zombie), limits=self.limits).verdicts[zombie.claim_id]
        assert verdict in (Verdict.FENCED, Verdict.REPEATED)
        assert self.model.settle([OUTCOMES[way](zombie)], self.limits) == {zombie.claim_id: verdict}

    def zombies(self) -> list[Claim]:
        """Ended claims of jobs that were claimed again since."""
        return [
            claim
            for claim in self.claims
            if not self.model.is_live(claim)
            and (job := self.model.jobs.get(claim.job_id)) is not None
            and job.status is Status.CLAIMED
        ]

    @precondition(lambda self: self.may_write and self.claims)
    @rule(numbers=some)
    def reconcile(self, numbers: list[int]) -> None:
        """Release claims that their process did not receive."""
        claims = self.claims_at(numbers)
        live = [claim for claim in claims if self.model.is_live(claim)]
        unknown = {claim.claim_id: claim.job_id for claim in claims}
        count, displaced = self.store.run(release_claims(self.sql, unknown, "worker"))
        self.model.settle([Released(claim) for claim in live], {})
        assert (count, {job.job_id: job.other_id for job in displaced}) == (len(live), self.model.displaced)
        for ended in live:
            self.history.end(ended.claim_id, "released")

    def any_process(self, number: int) -> UUID:
        """Mostly one that is registered."""
        alive = list(self.model.processes)
        return (
            self.processes[number % len(self.processes)] if number % 8 == 0 or not alive else alive[number % len(alive)]
        )

    def claim_for(self, process_id: UUID, lanes: Sequence[Lane], limit: int, queues: list[str] | None) -> None:
        requests = [ClaimRequest(process_id, lane, limit, queues or ()) for lane in lanes]
        wanted = self.model.wanted(*requests)
        claims = _claims(self.store, *requests)
        assert [claim.job_id for claim in claims] == wanted
        self.claimed(claims, process_id)

    def claimed(self, claims: Sequence[Claim], process_id: UUID) -> None:
        for new in claims:
            assert (refuse_expired(new) is not None) is self.model.is_expired(self.model.jobs[new.job_id])
        self.model.claim(claims, process_id)
        self.history.begin(claims)
        self.claims += claims


def _claims(store: Store, *requests: ClaimRequest) -> Sequence[Claim]:
    """Without names of queues, from all of them."""
    if requests[0].queues:
        return store.run(claim(store.sql, *requests))
    taken = store.run(claim_from_all(store.sql, *requests))
    assert not (taken.is_paused and taken.claims)
    return taken.claims
