"""One job of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steady_queue.store.job import Status

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from steady_queue.store.job import FailureKind, NewJob

WAITING = (Status.SCHEDULED, Status.BLOCKED, Status.READY)


@dataclass(slots=True)
class Job:
    """A job that is committed."""

    new: NewJob
    status: Status
    #: Until when it must have been started; deleted with its first start that counts, or a retry by hand.
    expires_at: datetime | None
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
    def id(self) -> UUID:
        return self.new.id

    @property
    def place(self) -> tuple[int, UUID]:
        return -self.new.priority, self.new.id

    @property
    def holds(self) -> str | None:
        """The key of which it has a slot."""
        return self.new.concurrency_key if self.status in (Status.READY, Status.CLAIMED) else None

    def end(self, failure: FailureKind, hour: int) -> None:
        """It fails while it waits."""
        self.status, self.failure, self.ended = Status.FAILED, failure, hour
        self.due, self.is_manual = None, False
