"""The history of claims: what the store returned, counted without the database or the model."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from steady_queue.store.job import Claim


class ClaimHistory:
    """Every claim begins one attempt, and that attempt has one end."""

    def __init__(self) -> None:
        #: The claims that were returned and have not ended, each with its job.
        self.open: dict[UUID, UUID] = {}
        self.ended: dict[UUID, str] = {}
        self.begun: Counter[UUID] = Counter()
        self.over: Counter[UUID] = Counter()
        self.released: Counter[UUID] = Counter()
        #: Also by hand.
        self.retried: Counter[UUID] = Counter()
        #: Claims that ended the job before its task was started: they are no attempts.
        self.refused: Counter[UUID] = Counter()
        #: Jobs that ended while they waited.
        self.cancelled: Counter[UUID] = Counter()

    def begin(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            assert claim.claim_id not in self.open, "two attempts have the same claim id"
            assert claim.claim_id not in self.ended, "a claim id is used again"
            assert claim.job_id not in self.open.values(), "a job runs twice at once"
            self.open[claim.claim_id] = claim.job_id
            self.begun[claim.job_id] += 1

    def end(self, claim_id: UUID, how: str) -> None:
        assert claim_id in self.open, f"{claim_id} is to be {how}, and was {self.ended.get(claim_id, 'never begun')}"
        job_id = self.open.pop(claim_id)
        self.ended[claim_id] = how
        (self.released if how in ("released", "interrupted", "snoozed", "unknown") else self.over)[job_id] += 1
        self.retried[job_id] += how == "retried"
        self.refused[job_id] += how == "refused"

    def violations(self) -> Iterable[str]:
        """Jobs that began or ended more often than there was a cause."""
        running = Counter(self.open.values())
        for job_id, begun in self.begun.items():
            causes = 1 + self.released[job_id] + self.retried[job_id]
            if begun > causes:
                yield f"{job_id} began {begun} times, with {causes} causes"
            if begun != self.over[job_id] + self.released[job_id] + running[job_id]:
                yield f"{job_id} began {begun} times, and ended otherwise"
